//! The files of a host, below a root folder.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt,
};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};

/// A host whose files are read and written. All paths are absolute paths of that host.
pub(super) struct Host {
    /// `None` for the host on which the program runs.
    root: Option<PathBuf>,
}

impl Host {
    pub(super) fn new(root: Option<PathBuf>) -> anyhow::Result<Host> {
        if let Some(root) = &root
            && !root.is_dir()
        {
            bail!("cannot use --root {}: it is not a folder. Create it first", root.display());
        }
        Ok(Host { root })
    }

    /// Where a file of the host is for this program. A link may not lead out of the root.
    pub(super) fn path(&self, path: &Path) -> anyhow::Result<PathBuf> {
        let Some(root) = &self.root else { return Ok(path.to_owned()) };
        let mut found = root.clone();
        for part in path.components() {
            match part {
                Component::RootDir | Component::CurDir => continue,
                Component::Normal(name) => found.push(name),
                Component::ParentDir | Component::Prefix(_) => {
                    bail!("cannot use the path {}: write it without `..`", path.display())
                }
            }
            if found.is_symlink() {
                bail!(
                    "cannot use {}: it is a symbolic link, which may lead out of {}. Replace it by what it names, or configure the host itself without --root",
                    found.display(),
                    root.display()
                );
            }
        }
        Ok(found)
    }

    /// The text of a file; `None` if the file does not exist.
    pub(super) fn read(&self, path: &Path) -> anyhow::Result<Option<String>> {
        let path = self.path(path)?;
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            // Without a folder of that name there is no such file either.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(None)
            }
            Err(error) => bail!(
                "cannot read {}: {error}. Check that it is a text file and that you may read it",
                path.display()
            ),
        }
    }

    /// The names of the files and folders in a folder, sorted; none if it does not exist.
    pub(super) fn list(&self, folder: &Path) -> anyhow::Result<Vec<String>> {
        let path = self.path(folder)?;
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => bail!("cannot list {}: {error}. Run the command as root", path.display()),
        };
        let mut names = entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<io::Result<Vec<_>>>()
            .with_context(|| format!("cannot list {}", path.display()))?;
        names.sort();
        Ok(names)
    }

    /// The folders above a file that do not exist, the outermost first.
    pub(super) fn missing_folders(&self, path: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let mut missing = Vec::new();
        for folder in path.ancestors().skip(1) {
            if self.path(folder)?.is_dir() {
                break;
            }
            missing.push(folder.to_owned());
        }
        missing.reverse();
        Ok(missing)
    }

    /// Replaces a file in one step, or creates it with this mode and the folders above it. An existing
    /// file keeps its mode and owner.
    pub(super) fn write(&self, path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
        let file = self.path(path)?;
        self.try_write(path, &file, text, mode).map_err(|error| {
            let path = file.display();
            anyhow!(
                "cannot write {path}: {error}. Run the command as root, or make its folder writable"
            )
        })
    }

    fn try_write(&self, path: &Path, file: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
        for folder in self.missing_folders(path)? {
            let folder = self.path(&folder)?;
            DirBuilder::new().mode(0o755).create(&folder)?;
            // The umask may have removed bits.
            fs::set_permissions(&folder, Permissions::from_mode(0o755))?;
        }
        // A link stays, and the file that it names is replaced.
        let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let mut new = target.clone().into_os_string();
        new.push(".watchfire-new");
        let new = PathBuf::from(new);
        // It is left over if the computer went off while it was written.
        let _ = fs::remove_file(&new);
        let written = replace(&target, &new, text, mode);
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        Ok(written?)
    }

    pub(super) fn remove(&self, path: &Path) -> anyhow::Result<()> {
        let path = self.path(path)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                bail!("cannot remove {}: {error}. Run the command as root", path.display())
            }
            _ => Ok(()),
        }
    }

    /// Removes a folder; returns whether it is gone. A folder with content stays.
    pub(super) fn remove_folder(&self, path: &Path) -> anyhow::Result<bool> {
        let path = self.path(path)?;
        match fs::remove_dir(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
            Err(error) => {
                bail!("cannot remove the folder {}: {error}. Remove it yourself", path.display())
            }
        }
    }
}

/// Writes a new file, and then gives it the name of the old one.
fn replace(target: &Path, new: &Path, text: &str, mode: u32) -> io::Result<()> {
    let old = match fs::metadata(target) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
    file.write_all(text.as_bytes())?;
    if let Some(old) = &old {
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
            std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
    }
    let mode = old.map_or(mode, |old| old.permissions().mode());
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()?;
    fs::rename(new, target)?;
    let folder = target.parent().unwrap_or(Path::new("/"));
    File::open(folder)?.sync_all()
}
