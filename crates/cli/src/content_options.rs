//! The command-line options for chunking files into blocks.

use std::fs;
use std::path::Path;

use watchfire_content::Profile;
use watchfire_store::ImportOptions;

use watchfire_report::units::parse_bytes;

/// The options that determine the CID. The defaults give the same CID as the browser.
#[derive(clap::Args, Clone, Copy)]
pub struct ContentOptions {
    /// How files and directories are split into blocks.
    #[arg(long, value_name = "PROFILE", value_enum, default_value_t = ProfileName::UnixfsV1_2025)]
    profile: ProfileName,
    /// The size of a block, such as 256KiB; the default comes from the profile.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    chunk: Option<u64>,
    /// The most links of a node; the default comes from the profile.
    #[arg(long, value_name = "N")]
    links: Option<usize>,
    /// Skip files and directories whose names start with a dot, unless they are given as PATH.
    #[arg(long)]
    skip_hidden: bool,
}

/// The profiles by name.
#[derive(clap::ValueEnum, Clone, Copy)]
enum ProfileName {
    /// CID version 1, raw leaves of 1 MiB, 1024 links. The same as kubo's profile of this name.
    #[value(name = "unixfs-v1-2025")]
    UnixfsV1_2025,
    /// The default of `ipfs add`: CID version 0, leaves of 256 KiB, 174 links.
    KuboDefault,
    /// CID version 1, raw leaves of 256 KiB, 174 links.
    #[value(name = "v1-256-kib")]
    V1_256KiB,
    /// CID version 1, raw leaves of 1 MiB, 174 links.
    #[value(name = "v1-1-mib")]
    V1_1MiB,
}

impl ContentOptions {
    pub fn import_options(&self) -> ImportOptions {
        let named = match self.profile {
            ProfileName::UnixfsV1_2025 => Profile::UNIXFS_V1_2025,
            ProfileName::KuboDefault => Profile::KUBO_DEFAULT,
            ProfileName::V1_256KiB => Profile::V1_256_KIB,
            ProfileName::V1_1MiB => Profile::V1_1_MIB,
        };
        let chunk = self.chunk.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let profile = Profile {
            chunk_bytes: chunk.unwrap_or(named.chunk_bytes),
            links_max: self.links.unwrap_or(named.links_max),
            ..named
        };
        ImportOptions { profile, skips_hidden: self.skip_hidden }
    }

    /// Bytes of all readable files at `path`, for a progress bar.
    pub fn bytes_at(&self, path: &Path) -> u64 {
        let Ok(metadata) = fs::metadata(path) else { return 0 };
        if metadata.is_dir() { self.bytes_below(path) } else { metadata.len() }
    }

    fn bytes_below(&self, directory: &Path) -> u64 {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let included = entries.filter(|entry| {
            !(self.skip_hidden && entry.file_name().as_encoded_bytes().starts_with(b"."))
        });
        included
            .map(|entry| match entry.metadata() {
                // Symbolic links are not followed; the importer does not follow them either.
                Ok(metadata) if metadata.is_dir() => self.bytes_below(&entry.path()),
                Ok(metadata) if metadata.is_file() => metadata.len(),
                _ => 0,
            })
            .sum()
    }
}
