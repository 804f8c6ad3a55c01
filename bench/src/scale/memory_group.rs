//! A control group that limits the memory of the server, as a smaller machine would.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Files of a control group: its limit, and its largest use.
type Files = [&'static str; 2];

const VERSION_1: Files = ["memory.limit_in_bytes", "memory.max_usage_in_bytes"];
const VERSION_2: Files = ["memory.max", "memory.peak"];

/// A control group with a limit, removed when it is dropped. The kernel counts the memory of its
/// processes, and what the kernel keeps for them, such as sockets.
pub struct MemoryGroup {
    folder: PathBuf,
    /// The group of this process.
    home: PathBuf,
    files: Files,
}

impl MemoryGroup {
    pub fn new(bytes: u64) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let (root, home, files) = hierarchy(&mounts, &own)
            .context("no control groups for memory are mounted below /sys/fs/cgroup")?;
        let folder = root.join(format!("watchfire-bench-{}", std::process::id()));
        fs::create_dir(&folder)
            .with_context(|| format!("cannot create the control group {}", folder.display()))?;
        let group = MemoryGroup { folder, home, files };
        write(&group.folder.join(files[0]), bytes)?;
        Ok(group)
    }

    /// Calls `start`. The processes that it starts are in the group, with all their children.
    pub fn within<T>(&self, start: impl FnOnce() -> Result<T>) -> Result<T> {
        let own = u64::from(std::process::id());
        write(&self.folder.join("cgroup.procs"), own)?;
        let started = start();
        write(&self.home.join("cgroup.procs"), own)?;
        started
    }

    /// The most memory that the group has used, in bytes.
    pub fn peak(&self) -> Result<u64> {
        self.read(self.files[1])
    }

    fn read(&self, file: &str) -> Result<u64> {
        let path = self.folder.join(file);
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        text.trim().parse().with_context(|| format!("{} has no number", path.display()))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A group with processes stays until they end; an empty one remains on disk at worst.
        let _ = fs::remove_dir(&self.folder);
    }
}

fn write(path: &Path, value: u64) -> Result<()> {
    fs::write(path, value.to_string()).with_context(|| format!("cannot write {}", path.display()))
}

/// The root of the hierarchy with memory limits, the group of this process there, and the names of
/// the files.
fn hierarchy(mounts: &str, own: &str) -> Option<(PathBuf, PathBuf, Files)> {
    let mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut unified = None;
    for mount in mounts {
        let [_, point, kind, options, ..] = mount[..] else { continue };
        let (is_memory, files) = match kind {
            "cgroup" => (options.split(',').any(|option| option == "memory"), VERSION_1),
            // A host with both versions has memory in the first.
            "cgroup2" => {
                unified = Some(point);
                continue;
            }
            _ => continue,
        };
        if is_memory {
            let path = own.lines().find_map(|line| line.split_once(":memory:"))?.1;
            return Some((point.into(), below(point, path), files));
        }
    }
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    unified.map(|point| (point.into(), below(point, path), VERSION_2))
}

fn below(root: &str, path: &str) -> PathBuf {
    Path::new(root).join(path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_groups_of_both_versions_are_found() {
        let first = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                     cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
                     cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let own = "5:memory:/user/a\n4:cpu:/\n0::/b\n";
        let found = hierarchy(first, own).unwrap();
        assert_eq!(found.0, Path::new("/sys/fs/cgroup/memory"));
        assert_eq!(
            (found.1.as_path(), found.2),
            (Path::new("/sys/fs/cgroup/memory/user/a"), VERSION_1)
        );

        let found = hierarchy("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "0::/b\n").unwrap();
        assert_eq!((found.1.as_path(), found.2), (Path::new("/sys/fs/cgroup/b"), VERSION_2));
        assert!(hierarchy("proc /proc proc rw 0 0\n", own).is_none());
    }
}
