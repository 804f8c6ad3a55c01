//! Memory that nobody has to wait for.
//!
//! A virtual machine may give memory that is free back to its host within seconds, and pay a good deal more for a page
//! when it is used again than the page is worth. Who writes the most after a pause, comes first, or takes longest, would
//! pay for the others. So no memory is free for long: an empty file without blocks is read until its pages are nearly
//! all there is, and as many of them are let go as a case takes.

use std::fs::{self, File};
use std::io;
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};

use crate::process::kibibytes;

/// What is free at any time: what a case may take before the next look.
const FREE_BYTES: u64 = 1 << 30;
/// Machines with more than this are hardly anybody's guest, and would take minutes.
const BYTES_MAX: u64 = 64 << 30;
/// What is let go at a time.
const PIECE_BYTES: u64 = 32 << 20;
const READ_BYTES: usize = 1 << 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Pages for cases to come.
pub struct Warmth {
    file: Arc<File>,
    bytes: u64,
}

/// Lets them go as they are needed, until it is dropped.
pub struct Giving {
    has_ended: Arc<AtomicBool>,
    giver: Option<JoinHandle<io::Result<()>>>,
}

impl Warmth {
    pub fn in_folder(folder: &Path) -> Result<Self> {
        let path = folder.join("warmth");
        let name = || format!("cannot use {}", path.display());
        let bytes = meminfo("MemTotal:")?.min(BYTES_MAX) / PIECE_BYTES * PIECE_BYTES;
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.with_context(name)?;
        // It has no name from now on, and goes with this process.
        fs::remove_file(&path).with_context(name)?;
        file.set_len(bytes).with_context(name)?;
        Ok(Self { file: Arc::new(file), bytes })
    }

    /// Has nearly all free memory in use.
    pub fn gather(&self) -> Result<Giving> {
        let mut read = vec![0; READ_BYTES];
        let mut at = 0;
        while at < self.bytes && meminfo("MemFree:")? > FREE_BYTES {
            self.file.read_exact_at(&mut read, at)?;
            at += READ_BYTES as u64;
        }
        let has_ended = Arc::new(AtomicBool::new(false));
        let giver = thread::spawn({
            let (file, has_ended) = (self.file.clone(), has_ended.clone());
            move || give(&file, at, &has_ended)
        });
        Ok(Giving { has_ended, giver: Some(giver) })
    }
}

/// Keeps so much free as is now, by letting go of what comes before an offset in the file.
fn give(file: &File, end: u64, has_ended: &AtomicBool) -> io::Result<()> {
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

impl Drop for Giving {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        if let Some(giver) = self.giver.take() {
            let _ = giver.join(); // without it pages are only colder
        }
    }
}

fn meminfo(name: &str) -> io::Result<u64> {
    Ok(kibibytes(&fs::read_to_string("/proc/meminfo")?, name)? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_file_has_as_much_as_the_machine_and_nothing_stays_of_it() {
        let folder = std::env::temp_dir().join(format!("bench-warmth-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let warmth = Warmth::in_folder(&folder).unwrap();
        let missing = meminfo("MemTotal:").unwrap().min(BYTES_MAX) - warmth.bytes;
        assert!(missing < PIECE_BYTES, "{missing} bytes too little");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir(&folder).unwrap();
    }
}
