use std::fs::{self, File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use content::dag_pb::Node;
use content::{Block, Codec, DirectoryBuilder, FileBuilder, Profile, Root, build_symlink};

use crate::StoreError;
use crate::error::Doing;

/// Most directories on top of one another that are imported.
pub const DIRECTORIES_DEEP_MAX: usize = 256;

/// How much of a file is read at once.
const READ_BYTES: usize = 1024 * 1024;

/// What becomes of files and directories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// How they become blocks: the CID depends on it.
    pub profile: Profile,
    /// Whether what lies in a directory and has a name with a dot in front is passed over. What is
    /// imported by its own name never is.
    pub skips_hidden: bool,
}

/// A block that came out of a file or a directory.
#[derive(Clone, Copy, Debug)]
pub struct Imported<'a> {
    /// The block.
    pub block: &'a Block,
    /// Where its bytes lie, if it is a leaf of a file.
    pub place: Option<Place<'a>>,
}

/// A part of a file.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The file.
    pub path: &'a Path,
    /// Where in the file the part begins.
    pub offset: u64,
    /// Bytes of the file in the block. The block has more when it is a node around them.
    pub bytes: u64,
    pub(crate) stamp: Stamp,
}

/// What a file looks like from outside, to notice that it was changed.
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

/// The file or directory at `path` as blocks, all of which `take` is given: leaves in the order of
/// their file, nodes after what they link to, the root last.
///
/// Directories are imported with all that is below them, symbolic links in them as links; `path`
/// itself may be one, and is followed. Holds one chunk, and the names of the directories that it
/// is in, whatever the size of it all. Stops at the first error, of its own or of `take`.
pub fn import(
    path: &Path,
    options: &ImportOptions,
    take: &mut dyn FnMut(Imported<'_>) -> Result<(), StoreError>,
) -> Result<Root, StoreError> {
    // So that a directory's own errors come before those of its files.
    FileBuilder::new(options.profile)?;
    let metadata = fs::metadata(path).doing("look at", path)?;
    Import { options, take }.anything(path, &metadata, 0)
}

/// The root that [`import`] would come to, without keeping anything.
///
/// ```
/// use store::{ImportOptions, cid_of};
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
    fn anything(
        &mut self,
        path: &Path,
        metadata: &Metadata,
        depth: usize,
    ) -> Result<Root, StoreError> {
        let kind = metadata.file_type();
        if kind.is_file() {
            self.file(path)
        } else if kind.is_dir() {
            self.directory(path, depth)
        } else if kind.is_symlink() {
            self.symlink(path)
        } else {
            Err(StoreError::Special { path: path.to_owned() })
        }
    }

    fn file(&mut self, path: &Path) -> Result<Root, StoreError> {
        let mut file = File::open(path).doing("read", path)?;
        let stamp = Stamp::of(&file.metadata().doing("look at", path)?);
        let mut offset = 0;
        let take = &mut *self.take;
        let mut emit = |block: Block| {
            let place = leaf_bytes(&block).map(|bytes| Place { path, offset, bytes, stamp });
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
            // A file that grows as fast as it is read would never end.
            if len == 0 || read_bytes > stamp.len {
                break;
            }
            builder.write(&piece[..len], &mut emit)?;
        }
        let after = Stamp::of(&file.metadata().doing("look at", path)?);
        if read_bytes != stamp.len || after != stamp {
            return Err(StoreError::ChangedMeanwhile { path: path.to_owned() });
        }
        builder.finish(&mut emit)
    }

    fn directory(&mut self, path: &Path, depth: usize) -> Result<Root, StoreError> {
        if depth >= DIRECTORIES_DEEP_MAX {
            let max = DIRECTORIES_DEEP_MAX;
            return Err(StoreError::TooDeep { path: path.to_owned(), max });
        }
        let mut builder = DirectoryBuilder::new(self.options.profile);
        for (name, path) in names(path, self.options.skips_hidden)? {
            let metadata = fs::symlink_metadata(&path).doing("look at", &path)?;
            let root = self.anything(&path, &metadata, depth + 1)?;
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

/// What lies in a directory, in the order of the names: blocks come in the same order always.
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

/// Bytes of the file in a block that a [`FileBuilder`] made; `None` when they are behind links.
fn leaf_bytes(block: &Block) -> Option<u64> {
    if block.cid().codec() == Codec::RAW {
        return Some(block.bytes().len() as u64);
    }
    let node = Node::decode(block.bytes()).expect("it was built just now");
    if !node.links.is_empty() {
        return None;
    }
    let unixfs = content::unixfs::UnixFs::decode(&node.data.unwrap_or_default());
    Some(unixfs.expect("it was built just now").data.map_or(0, |data| data.len() as u64))
}
