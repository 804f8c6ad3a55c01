//! A file system for the files of one case, which is gone at once afterwards.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::fs::statvfs;

/// Disk space that stays free.
const SPARE_BYTES: u64 = 3 << 30;
/// Space for the file system's own data.
const OWN_BYTES: u64 = 512 << 20;
/// The time in which the system frees the space of the previous case.
const FREE_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// A mounted file system in a file without a name. To remove tens of thousands of files takes minutes
/// where the disk is told about each free block; a file system is dropped within a second.
///
/// It is mounted in the namespace of this process, so it ends with the run in any case.
pub struct Disk {
    mount_point: PathBuf,
}

impl Disk {
    /// Mounts a file system with space for so many bytes.
    pub fn mount(mount_point: &Path, bytes: u64) -> Result<Self> {
        fs::create_dir_all(mount_point)?;
        let bytes = bytes + OWN_BYTES;
        wait_for_room(mount_point, bytes + SPARE_BYTES)?;
        let image = mount_point.with_extension("disk");
        let created = File::create(&image).and_then(|file| file.set_len(bytes));
        created.with_context(|| format!("cannot create {}", image.display()))?;
        let mounted = mount(&image, mount_point);
        // From now on the file has no name, and is removed when the file system is unmounted.
        fs::remove_file(&image)?;
        mounted?;
        Ok(Disk { mount_point: mount_point.to_owned() })
    }
}

fn mount(image: &Path, mount_point: &Path) -> Result<()> {
    let own = "nodiscard,lazy_itable_init=1,root_owner=0:0";
    run("mkfs.ext4", ["-q", "-F", "-m", "0", "-O", "^has_journal", "-E", own], &[image])?;
    let find = ["--find", "--show", "--direct-io=on"];
    let device = PathBuf::from(run("losetup", find, &[image])?.trim());
    let mounted = run("mount", ["-t", "ext4", "-o", "noatime"], &[&device, mount_point]);
    // A device that is in use is detached when it is unmounted.
    run("losetup", ["--detach"], &[&device])?;
    mounted.map(drop)
}

impl Drop for Disk {
    fn drop(&mut self) {
        // If this fails, the file system ends with the run.
        let _ = run("umount", ["--lazy"], &[&self.mount_point]);
    }
}

/// Waits until so many bytes are free. The system frees the space of the previous case when the last
/// of its namespaces has ended.
fn wait_for_room(folder: &Path, needed: u64) -> Result<()> {
    let started_at = Instant::now();
    loop {
        let disk = statvfs(folder)?;
        let free = disk.f_bavail * disk.f_frsize;
        if free >= needed {
            return Ok(());
        }
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        ensure!(
            started_at.elapsed() < FREE_TIMEOUT,
            "the case needs {:.1} GiB of disk, but {:.1} GiB are free: free some, or use --percent or \
             --hosts",
            gib(needed),
            gib(free)
        );
        thread::sleep(PAUSE);
    }
}

/// Runs a program, and returns its output.
fn run<const N: usize>(program: &str, options: [&str; N], paths: &[&Path]) -> Result<String> {
    let paths = paths.iter().map(|path| path.as_os_str());
    let arguments: Vec<&OsStr> = options.into_iter().map(OsStr::new).chain(paths).collect();
    let output = Command::new(program).args(&arguments).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "cannot prepare the disk of a case: {program} {arguments:?}: {}",
        stderr.trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
