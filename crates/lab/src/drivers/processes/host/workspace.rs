//! The folder of a run, and the removal of what killed runs left behind.
//!
//! **Without it**, a lab that is killed leaves its peers: 33 of them hold their ports and their memory, and the
//! next run measures beside them. A killed process cannot clean up, so the next lab command does.
//!
//! Each run has a folder, and holds a lock on the file `lock` in it. The kernel releases the lock when the
//! process ends, in any way. Each process of a run has the run's id in the variable [`MARK`] of its
//! environment, and so have its own children. So [`Workspace::sweep`] knows two things without a list that could be
//! stale: a folder whose lock is free belongs to nobody, and the processes with its id belong to it. It ends
//! these, and removes their control groups and the folder. Processes are ended through descriptors (pidfd) that are opened before the
//! environment is read, so a number that another process got meanwhile is never hit.
//!
//! A folder without the lock file is younger than its run's lock: it is left alone for a minute. A folder with
//! the file [`STANDING`] is that of a standing cluster: only `lab down` ends it.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, getuid, pidfd_open, pidfd_send_signal};

use super::folder_removal::remove_folder;
use super::processors::remove_groups;
use crate::drivers::driver::DriverError;

/// The variable with the id of a run. Its name does not begin with WATCHFIRE_: the server reads those as settings.
pub const MARK: &str = "LAB_RUN_OF_WATCHFIRE";
/// The file that marks the folder of a standing cluster, and describes it.
pub const STANDING: &str = "cluster.json";
const LOCK: &str = "lock";
/// The folder of the nodes' folders.
const NODES: &str = "nodes";
/// How old a folder without a lock file must be.
const YOUNG: Duration = Duration::from_secs(60);

/// The folder of a run. It is removed when this is dropped.
pub struct Workspace {
    pub id: String,
    pub folder: PathBuf,
    /// Whether processes and folder stay when this is dropped.
    is_kept: bool,
    _lock: File,
}

impl Workspace {
    /// Creates a folder in `runs`, which is created if it is missing.
    pub fn create(runs: &Path) -> Result<Workspace, DriverError> {
        let error = |source| DriverError::Folder { path: runs.to_owned(), source };
        // Nodes have folders of their own as working directories.
        let runs = &std::path::absolute(runs).map_err(error)?;
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(runs).map_err(error)?;
        let metadata = fs::metadata(runs).map_err(error)?;
        if metadata.uid() != getuid().as_raw() {
            return Err(error(io::Error::other("it belongs to another user")));
        }
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let id = format!("{}-{}", std::process::id(), now.as_nanos());
        let folder = runs.join(&id);
        fs::create_dir(&folder).map_err(error)?;
        fs::create_dir(folder.join(NODES)).map_err(error)?;
        // The lock gets its name when it is held: a sweep never finds it free.
        let unnamed = folder.join(format!("new-{LOCK}"));
        let lock = File::create(&unnamed).map_err(error)?;
        lock.lock().map_err(error)?;
        fs::rename(unnamed, folder.join(LOCK)).map_err(error)?;
        Ok(Workspace { id, folder, is_kept: false, _lock: lock })
    }

    /// The folder of a node. It is apart from the files of the run, so a node may have any name.
    pub fn node_folder(&self, name: &str) -> PathBuf {
        self.folder.join(NODES).join(name)
    }

    /// Opens the folder of a standing cluster for this command alone. `None` if another command uses it.
    pub fn open(folder: &Path) -> io::Result<Option<Workspace>> {
        let lock = File::open(folder.join(LOCK))?;
        if !has_taken(&lock)? {
            return Ok(None);
        }
        let folder = std::path::absolute(folder)?;
        let id = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Some(Workspace { id, folder, is_kept: true, _lock: lock }))
    }

    /// Whether processes and folder stay when this is dropped.
    pub fn set_kept(&mut self, is_kept: bool) {
        self.is_kept = is_kept;
    }

    /// Ends the processes and removes the folders of runs that ended without doing so. Returns the number of runs.
    pub fn sweep(runs: &Path) -> io::Result<usize> {
        let entries = match fs::read_dir(runs) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        let mut swept = 0;
        for entry in entries {
            let folder = entry?.path();
            let Some(id) = folder.file_name().and_then(|name| name.to_str()) else { continue };
            // A run that ends, and another sweep, remove folders meanwhile.
            let is_swept = match sweep_one(&folder, id) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                result => result?,
            };
            swept += usize::from(is_swept);
        }
        Ok(swept)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // A process that outlived its node is ended before its folder is removed.
        let _ = end_processes(&self.id);
        let _ = remove_groups(&self.folder);
        let _ = remove_folder(&self.folder);
    }
}

/// Ends what an abandoned run left. Returns whether it was abandoned.
fn sweep_one(folder: &Path, id: &str) -> io::Result<bool> {
    if !is_abandoned(folder)? {
        return Ok(false);
    }
    end_processes(id)?;
    remove_groups(folder)?;
    remove_folder(folder)?;
    Ok(true)
}

/// Takes a lock, unless another process has it.
fn has_taken(lock: &File) -> io::Result<bool> {
    match lock.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn is_abandoned(folder: &Path) -> io::Result<bool> {
    if folder.join(STANDING).exists() {
        return Ok(false);
    }
    match File::open(folder.join(LOCK)) {
        Ok(lock) => has_taken(&lock),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let age = fs::metadata(folder)?.modified()?.elapsed().unwrap_or_default();
            Ok(folder.is_dir() && age > YOUNG)
        }
        Err(error) => Err(error),
    }
}

/// Ends every process with the id of a run in its environment.
fn end_processes(id: &str) -> io::Result<()> {
    let mark = format!("{MARK}={id}");
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = number.and_then(Pid::from_raw) else { continue };
        // A process that has ended, or belongs to another user, cannot be opened or read.
        let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|one| one == mark.as_bytes()) {
            let _ = pidfd_send_signal(descriptor, Signal::KILL);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_run_that_ended_is_swept_and_one_that_runs_is_not() {
        let temporary = tempfile::tempdir().unwrap();
        let runs = temporary.path();
        let workspace = Workspace::create(runs).unwrap();
        let abandoned = runs.join("1-1");
        fs::create_dir(&abandoned).unwrap();
        fs::write(abandoned.join(LOCK), "").unwrap();
        let mut left =
            Command::new("sleep").arg("600").env(MARK, "1-1").stdin(Stdio::null()).spawn().unwrap();
        let mut running =
            Command::new("sleep").arg("600").env(MARK, &workspace.id).spawn().unwrap();

        assert_eq!(Workspace::sweep(runs).unwrap(), 1);
        assert!(!left.wait().unwrap().success(), "the process of the abandoned run was ended");
        assert!(!abandoned.exists() && workspace.folder.exists());
        assert!(running.try_wait().unwrap().is_none(), "the process of this run still runs");

        drop(workspace);
        assert!(!running.wait().unwrap().success());
        assert_eq!(fs::read_dir(runs).unwrap().count(), 0);
    }
}
