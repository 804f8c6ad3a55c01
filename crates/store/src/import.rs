use std::fs::{self, File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use watchfire_content::dag_pb::Node;
use watchfire_content::{
    Block, Codec, DirectoryBuilder, FileBuilder, Profile, Root, build_symlink,
};

use crate::StoreError;
use crate::error::IoContext;

/// The deepest nesting of directories that is imported.
pub const DIRECTORY_DEPTH_MAX: usize = 256;

/// Bytes of a file that are read in one call.
const READ_BYTES: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// How they are split into blocks. The CID depends on it.
    pub profile: Profile,
    /// Whether entries of directories whose names begin with a dot are skipped. The imported path
    /// itself is never skipped.
    pub skips_hidden: bool,
}

/// A block of an imported file or directory.
#[derive(Clone, Copy, Debug)]
pub struct Imported<'a> {
    pub block: &'a Block,
    /// The location of its bytes if it is a leaf of a file.
    pub place: Option<FileRange<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub struct FileRange<'a> {
    pub path: &'a Path,
    pub offset: u64,
    /// The length of the range. The block is longer if it is a node that contains the bytes.
    pub bytes: u64,
    pub(crate) stamp: Stamp,
}

/// The metadata of a file by which a change is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    len: u64,
    modified_at: Option<SystemTime>,
}

impl Stamp {
    pub fn of(metadata: &Metadata) -> Self {
        Stamp { len: metadata.len(), modified_at: metadata.modified().ok() }
    }
}

/// Splits the file or directory at `path` into blocks and passes each to `take`: leaves in the
/// order of the file, nodes after the blocks that they link to, the root last.
///
/// Directories are imported recursively, and symbolic links in them as links. If `path` itself is a
/// symbolic link, it is followed. The import holds one chunk and the names of the directories on
/// the current path. It stops at the first error, including one of `take`.
pub fn import(
    path: &Path,
    options: &ImportOptions,
    take: &mut dyn FnMut(Imported<'_>) -> Result<(), StoreError>,
) -> Result<Root, StoreError> {
    // An invalid profile is reported before any file is read.
    FileBuilder::new(options.profile)?;
    let metadata = fs::metadata(path).doing("access", path)?;
    Import { options, take }.any(path, &metadata, 0)
}

/// Returns the root that [`import`] returns, without storing any block.
///
/// ```
/// use watchfire_store::{ImportOptions, cid_of};
///
/// # let file = std::env::temp_dir().join(format!("watchfire-cid-doc-{}", std::process::id()));
/// std::fs::write(&file, "Hello, world!\n")?;
/// let root = cid_of(&file, &ImportOptions::default())?;
/// let cid = "bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u";
/// assert_eq!(root.cid.to_string(), cid);
/// # std::fs::remove_file(file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn cid_of(path: &Path, options: &ImportOptions) -> Result<Root, StoreError> {
    import(path, options, &mut |_| Ok(()))
}

struct Import<'a> {
    options: &'a ImportOptions,
    take: &'a mut dyn FnMut(Imported<'_>) -> Result<(), StoreError>,
}

impl Import<'_> {
    fn any(&mut self, path: &Path, metadata: &Metadata, depth: usize) -> Result<Root, StoreError> {
        let kind = metadata.file_type();
        if kind.is_file() {
            self.file(path)
        } else if kind.is_dir() {
            self.directory(path, depth)
        } else if kind.is_symlink() {
            self.symlink(path)
        } else {
            Err(StoreError::UnsupportedFileType { path: path.to_owned() })
        }
    }

    fn file(&mut self, path: &Path) -> Result<Root, StoreError> {
        let mut file = File::open(path).doing("read", path)?;
        let stamp = Stamp::of(&file.metadata().doing("access", path)?);
        let mut offset = 0;
        let take = &mut *self.take;
        let mut emit = |block: Block| {
            let place = leaf_bytes(&block).map(|bytes| FileRange { path, offset, bytes, stamp });
            offset += place.map_or(0, |place| place.bytes);
            take(Imported { block: &block, place })
        };
        let mut builder = FileBuilder::new(self.options.profile)?;
        let mut piece = vec![0; READ_BYTES.min(stamp.len as usize + 1)];
        let mut read_bytes = 0;
        loop {
            let len = match file.read(&mut piece) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                len => len.doing("read", path)?,
            };
            read_bytes += len as u64;
            // A file that grows while it is read might never end.
            if len == 0 || read_bytes > stamp.len {
                break;
            }
            builder.write(&piece[..len], &mut emit)?;
        }
        let after = Stamp::of(&file.metadata().doing("access", path)?);
        if read_bytes != stamp.len || after != stamp {
            return Err(StoreError::ChangedDuringRead { path: path.to_owned() });
        }
        builder.finish(&mut emit)
    }

    fn directory(&mut self, path: &Path, depth: usize) -> Result<Root, StoreError> {
        if depth >= DIRECTORY_DEPTH_MAX {
            let max = DIRECTORY_DEPTH_MAX;
            return Err(StoreError::TooDeep { path: path.to_owned(), max });
        }
        let mut builder = DirectoryBuilder::new(self.options.profile);
        for (name, path) in names(path, self.options.skips_hidden)? {
            let metadata = fs::symlink_metadata(&path).doing("access", &path)?;
            let root = self.any(&path, &metadata, depth + 1)?;
            builder
                .insert(&name, &root)
                .map_err(|error| StoreError::Directory { path: path.clone(), error })?;
        }
        builder.finish(&mut |block| (self.take)(Imported { block: &block, place: None }))
    }

    fn symlink(&mut self, path: &Path) -> Result<Root, StoreError> {
        let target = fs::read_link(path).doing("read", path)?;
        let target =
            target.to_str().ok_or_else(|| StoreError::NameNotUtf8 { path: path.to_owned() })?;
        let (block, root) = build_symlink(self.options.profile, target)?;
        (self.take)(Imported { block: &block, place: None })?;
        Ok(root)
    }
}

/// Returns the entries of a directory in the order of their names, so that blocks always come in
/// the same order.
pub(crate) fn names(
    directory: &Path,
    skips_hidden: bool,
) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).doing("list", directory)? {
        let entry = entry.doing("list", directory)?;
        let path = entry.path();
        let name = entry.file_name();
        let name = name.into_string();
        let name = name.map_err(|_| StoreError::NameNotUtf8 { path: path.clone() })?;
        if !(skips_hidden && name.starts_with('.')) {
            names.push((name, path));
        }
    }
    names.sort();
    Ok(names)
}

/// Returns how many bytes of the file a block of a [`FileBuilder`] contains; `None` for a node with
/// links.
fn leaf_bytes(block: &Block) -> Option<u64> {
    if block.cid().codec() == Codec::RAW {
        return Some(block.bytes().len() as u64);
    }
    let node = Node::decode(block.bytes()).expect("FileBuilder builds valid nodes");
    if !node.links.is_empty() {
        return None;
    }
    let unixfs = watchfire_content::unixfs::UnixFs::decode(&node.data.unwrap_or_default());
    Some(unixfs.expect("FileBuilder builds valid nodes").data.map_or(0, |data| data.len() as u64))
}
