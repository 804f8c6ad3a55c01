//! `watchfire car`: exports content to an archive (CAR) and imports it from one.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use serde_json::json;
use watchfire_content::car::{self, CarItem, CarReader};
use watchfire_content::{Block, Cid, Multihash, Walk};
use watchfire_store::{
    DiskLimits, DiskStore, ExportLimits, ReadBlocks, SharedFiles, WriteBlocks, export, names,
    resolve,
};

use crate::content_options::ContentOptions;
use crate::link::Link;
use crate::output::content_output;
use crate::progress::{ProgressLine, Step};
use crate::serving::emit;
use watchfire_report::units::{binary_bytes, parse_bytes};

/// Bytes of an archive that are read in one call.
const READ_BYTES: usize = 1024 * 1024;
/// Memory for the CIDs of the exported blocks: enough for some terabytes.
const NAMES_BYTES_MAX: usize = 1 << 30;
/// Most blocks of one archive that are checked.
pub const BLOCKS_MAX: usize = 16_000_000;

/// Arguments of `watchfire car`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Write a file, a directory, or content of a block store to an archive.
    Export(Export),
    /// Write the content of an archive to disk, or store its blocks.
    Import(Import),
}

#[derive(clap::Args)]
struct Export {
    /// A file or a directory; with `--store` a CID.
    #[arg(value_name = "PATH|CID")]
    content_path: PathBuf,
    /// Write the archive to this new file; `-` is the standard output. The default is the CID with
    /// `.car`.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Read the content from this block store.
    #[arg(long, value_name = "FOLDER")]
    store: Option<PathBuf>,
    #[command(flatten)]
    content: ContentOptions,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Import {
    /// The archive; `-` is the standard input.
    #[arg(value_name = "FILE")]
    archive: PathBuf,
    /// Write the content to this new path, if the archive has one root. The default is the CID.
    #[arg(long, short, value_name = "PATH", conflicts_with = "store")]
    output: Option<PathBuf>,
    /// Keep the blocks in this block store, as `hold` does, instead of writing files.
    #[arg(long, value_name = "FOLDER")]
    store: Option<PathBuf>,
    /// Write at most this many bytes, such as 10GiB. In a folder, each entry counts at least 4KiB.
    #[arg(long, value_name = "SIZE", default_value = "1TiB", value_parser = parse_bytes)]
    bytes_max: u64,
    /// Print JSON, one object per line.
    #[arg(long)]
    json: bool,
}

/// Exports or imports an archive.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.verb {
        Verb::Export(arguments) => arguments.run(),
        Verb::Import(arguments) => arguments.run(),
    }
    .map(|()| ExitCode::SUCCESS)
}

impl Export {
    fn run(&self) -> anyhow::Result<()> {
        let is_stdout = self.output.as_ref().is_some_and(|path| path.as_os_str() == "-");
        ensure!(!(is_stdout && self.json), "the standard output cannot be both archive and JSON");
        match &self.store {
            Some(folder) => {
                let text = self.content_path.to_str().context("a CID must be valid UTF-8")?;
                let link: Link = text.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
                let blocks = DiskStore::open(folder, unlimited())?;
                let root = resolve(&blocks, &link.cid, &link.path)?;
                self.write(&blocks, &root, is_stdout)
            }
            None => {
                let shared = SharedFiles::new(NAMES_BYTES_MAX);
                let root = shared.share(&self.content_path, &self.content.import_options())?;
                self.write(&shared, &root.cid, is_stdout)
            }
        }
    }

    fn write(&self, blocks: &dyn ReadBlocks, root: &Cid, is_stdout: bool) -> anyhow::Result<()> {
        if is_stdout {
            let mut out = BufWriter::new(content_output()?);
            write_archive(blocks, root, &mut out, !self.json)?;
            return out.flush().context("cannot write the standard output");
        }
        let path = self.output.clone().unwrap_or_else(|| PathBuf::from(format!("{root}.car")));
        let name = path.display().to_string();
        let doing = || format!("cannot write {}", names::shown(&name));
        let file = match File::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                bail!("{}: it exists already; choose another path with --output", doing())
            }
            opened => opened.with_context(doing)?,
        };
        let mut out = BufWriter::new(file);
        let written = write_archive(blocks, root, &mut out, !self.json)
            .and_then(|written| out.flush().map(|()| written).with_context(doing));
        let Written { blocks, bytes } = written.inspect_err(|_| {
            // An incomplete archive is useless, and would block a retry.
            let _ = fs::remove_file(&path);
        })?;
        if self.json {
            let cid = root.to_string();
            let event = json!({ "event": "exported", "cid": cid, "path": name, "blocks": blocks, "bytes": bytes });
            return Ok(emit(&event)?);
        }
        println!("{root}  {}, {}", names::shown(&name), binary_bytes(bytes));
        Ok(())
    }
}

/// The number and size of the exported blocks.
struct Written {
    blocks: u64,
    bytes: u64,
}

/// Writes all blocks below `root`, each once and parents first, in the order of kubo.
fn write_archive(
    blocks: &dyn ReadBlocks,
    root: &Cid,
    out: &mut impl Write,
    shows_progress: bool,
) -> anyhow::Result<Written> {
    let mut line = ProgressLine::start(!shows_progress);
    let head = car::header(std::slice::from_ref(root));
    out.write_all(&head)?;
    let mut written = Written { blocks: 0, bytes: head.len() as u64 };
    let mut walk = Walk::new(root.clone(), BLOCKS_MAX);
    while let Some(cid) = walk.next() {
        let block = match Block::from_cid(cid) {
            Some(block) => block,
            None => blocks.get(cid)?.with_context(|| format!("{cid} is missing"))?,
        };
        if matches!(cid.hash(), Multihash::Identity(_)) {
            // The CID contains the data.
            walk.take(&block)?;
            continue;
        }
        let head = car::section_head(&block);
        out.write_all(&head)?;
        out.write_all(block.bytes())?;
        written.blocks += 1;
        written.bytes += (head.len() + block.bytes().len()) as u64;
        line.show(&Step { bytes: written.bytes, note: "written".to_owned(), ..Step::default() });
        walk.take(&block)?;
    }
    line.clear();
    Ok(written)
}

impl Import {
    fn run(&self) -> anyhow::Result<()> {
        let is_stdin = self.archive.as_os_str() == "-";
        let name =
            if is_stdin { "standard input".into() } else { self.archive.display().to_string() };
        let doing = |name: &str| format!("cannot import {}", names::shown(name));
        let mut input: Box<dyn Read> = if is_stdin {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(&self.archive).with_context(|| doing(&name))?)
        };
        if let Some(folder) = &self.store {
            let blocks = DiskStore::open(folder, DiskLimits::default())?;
            let roots =
                self.store_blocks(&mut input, &blocks, |root| Ok(blocks.pin(root).map(drop)?));
            let roots = roots.with_context(|| doing(&name))?;
            check_all(&blocks, &roots)?;
            blocks.sync()?;
            return roots.iter().try_for_each(|root| self.report(root, None));
        }
        let temporary = TemporaryStore::open(self.output.as_deref())?;
        let roots = self
            .store_blocks(&mut input, &temporary.blocks, |_| Ok(()))
            .with_context(|| doing(&name))?;
        self.write_out(&temporary.blocks, &roots)
    }

    /// Stores all blocks of the archive, and returns the roots from its header.
    fn store_blocks(
        &self,
        input: &mut dyn Read,
        blocks: &DiskStore,
        mut on_root: impl FnMut(&Cid) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Cid>> {
        let mut line = ProgressLine::start(self.json);
        let mut reader = CarReader::default();
        let mut roots = Vec::new();
        let mut piece = vec![0; READ_BYTES];
        let mut bytes = 0;
        loop {
            let len = match input.read(&mut piece) {
                Ok(0) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                len => len?,
            };
            bytes += len as u64;
            reader.push(&piece[..len]);
            while let Some(item) = reader.next()? {
                match item {
                    CarItem::Roots(all) => {
                        all.iter().try_for_each(&mut on_root)?;
                        roots = all;
                    }
                    CarItem::Block(block) => blocks.put(&block)?,
                }
            }
            line.show(&Step { bytes, note: "read".to_owned(), ..Step::default() });
        }
        reader.finish()?;
        line.clear();
        ensure!(!roots.is_empty(), "cannot import the archive: it has no root");
        Ok(roots)
    }

    fn write_out(&self, blocks: &DiskStore, roots: &[Cid]) -> anyhow::Result<()> {
        if let (Some(output), [_, _, ..]) = (&self.output, roots) {
            bail!(
                "cannot write {} roots to {}; without --output each is written to a path named by its CID",
                roots.len(),
                names::shown(&output.display().to_string())
            );
        }
        let limits = ExportLimits { bytes_max: self.bytes_max, ..ExportLimits::default() };
        for root in roots {
            let path = self.output.clone().unwrap_or_else(|| PathBuf::from(root.to_string()));
            let mut line = ProgressLine::start(self.json);
            let exported = export(blocks, root, &path, &limits, &mut |bytes| {
                line.show(&Step { bytes, note: "written".to_owned(), ..Step::default() });
            })?;
            line.clear();
            self.report(root, Some((&path, exported.bytes)))?;
        }
        Ok(())
    }

    fn report(&self, root: &Cid, written: Option<(&Path, u64)>) -> anyhow::Result<()> {
        let (path, bytes) = written.unzip();
        if self.json {
            let path = path.map(|path| path.display().to_string());
            let cid = root.to_string();
            let event = json!({ "event": "imported", "cid": cid, "path": path, "bytes": bytes });
            return Ok(emit(&event)?);
        }
        match (path, bytes) {
            (Some(path), Some(bytes)) => {
                let name = path.display().to_string();
                println!("{root}  {}, {}", names::shown(&name), binary_bytes(bytes));
            }
            _ => println!("{root}"),
        }
        Ok(())
    }
}

/// The limits of a store from which nothing is removed.
fn unlimited() -> DiskLimits {
    DiskLimits { bytes_max: u64::MAX, ..DiskLimits::default() }
}

/// Checks that the archive has every block below its roots.
fn check_all(blocks: &DiskStore, roots: &[Cid]) -> anyhow::Result<()> {
    for root in roots {
        let mut walk = Walk::new(root.clone(), BLOCKS_MAX);
        while let Some(cid) = walk.next() {
            let block = match Block::from_cid(cid) {
                Some(block) => Some(block),
                None => blocks.get(cid)?,
            };
            let block = block.with_context(|| format!("{cid} is not in the archive"))?;
            walk.take(&block)?;
        }
    }
    Ok(())
}

/// A temporary block store beside the output.
struct TemporaryStore {
    blocks: DiskStore,
}

impl TemporaryStore {
    fn open(output: Option<&Path>) -> anyhow::Result<Self> {
        let name = format!(".watchfire-car-{}", std::process::id());
        let folder = output.map_or_else(|| PathBuf::from(&name), |path| path.with_file_name(&name));
        let blocks = DiskStore::open_own(&folder, unlimited())?;
        Ok(TemporaryStore { blocks })
    }
}

impl Drop for TemporaryStore {
    fn drop(&mut self) {
        if let Err(error) = self.blocks.remove_folder() {
            eprintln!("watchfire: {error}");
        }
    }
}
