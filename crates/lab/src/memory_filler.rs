//! Fills the free memory of the machine, and releases as much of it as a run needs.
//!
//! A virtual machine can return free memory to its host within seconds (`/sys/module/page_reporting`). Then the
//! host must find each page again when a program writes to it. On the machine of our figures, writing 300 MiB took
//! 0.4 to 0.6 CPU-seconds with such pages, and 0.07 to 0.1 with memory in use: often more than all other work of a
//! program that fetches a file. The first program of a comparison would pay for all that follow.
//!
//! So the filler reads an empty sparse file until its pages fill nearly all free memory ([`FREE_BYTES`] stay), and
//! then drops [`PIECE_BYTES`] of them whenever a program has taken memory, until it is dropped itself. Touching all
//! free memory before a run is not enough: the host had it back after eight seconds, and a mesh of 32 takes longer.
//!
//! At most [`BYTES_MAX`] are filled. The pages are clean and belong to a file without a name, so the kernel can drop
//! them at any time, and nothing is left when this process ends.

use std::fs::{self, File};
use std::io;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

use crate::machine::meminfo;

/// Memory that stays free for a run until the next check.
const FREE_BYTES: u64 = 1 << 30;
/// Most memory that is filled; more would take minutes.
const BYTES_MAX: u64 = 64 << 30;
/// Bytes that are released at a time.
const PIECE_BYTES: u64 = 32 << 20;
const READ_BYTES: usize = 1 << 20;
const PAUSE: Duration = Duration::from_millis(5);

/// A file whose pages fill the memory.
pub struct MemoryFiller {
    file: Arc<File>,
    bytes: u64,
}

/// Releases pages as they are needed, until it is dropped.
pub struct MemoryRelease {
    has_ended: Arc<AtomicBool>,
    releaser: Option<JoinHandle<io::Result<()>>>,
}

impl MemoryFiller {
    pub fn in_folder(folder: &Path) -> io::Result<Self> {
        let path = folder.join("memory-filler");
        let bytes = meminfo("MemTotal:")?.min(BYTES_MAX) / PIECE_BYTES * PIECE_BYTES;
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path)?;
        // From now on the file has no name, and is removed when this process ends.
        fs::remove_file(&path)?;
        file.set_len(bytes)?;
        Ok(Self { file: Arc::new(file), bytes })
    }

    /// Fills nearly all free memory.
    pub fn fill(&self) -> io::Result<MemoryRelease> {
        let mut read = vec![0; READ_BYTES];
        let mut at = 0;
        while at < self.bytes && meminfo("MemFree:")? > FREE_BYTES {
            self.file.read_exact_at(&mut read, at)?;
            at += READ_BYTES as u64;
        }
        let has_ended = Arc::new(AtomicBool::new(false));
        let releaser = thread::spawn({
            let (file, has_ended) = (self.file.clone(), has_ended.clone());
            move || release(&file, at, &has_ended)
        });
        Ok(MemoryRelease { has_ended, releaser: Some(releaser) })
    }
}

/// Keeps the free memory at its current size, by dropping the pages of the file before `end`.
fn release(file: &File, end: u64, has_ended: &AtomicBool) -> io::Result<()> {
    let mut at = 0;
    let free = meminfo("MemFree:")?;
    while at < end && !has_ended.load(Ordering::Relaxed) {
        if meminfo("MemFree:")? < free {
            fadvise(file, at, NonZero::new(PIECE_BYTES), Advice::DontNeed)?;
            at += PIECE_BYTES;
        } else {
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

impl Drop for MemoryRelease {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        if let Some(releaser) = self.releaser.take() {
            let _ = releaser.join(); // a failure only makes the next run slower
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_as_large_as_the_memory_and_has_no_name() {
        let folder = std::env::temp_dir()
            .join(format!("watchfire-lab-memory-filler-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let memory_filler = MemoryFiller::in_folder(&folder).unwrap();
        let missing = meminfo("MemTotal:").unwrap().min(BYTES_MAX) - memory_filler.bytes;
        assert!(missing < PIECE_BYTES, "{missing} bytes too little");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir(&folder).unwrap();
    }
}
