//! The file with a profile of each minute of the last seven days.
//!
//! As in the file of the history (`figures/history.rs`), the number of a minute decides its slot, and the minute a week
//! later replaces it. So the file has one size, and needs no index. A slot is the text of a profile in gzip, after a line
//! with the number of the minute. The checksum of gzip finds a slot that was written by half: that minute is missing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use rustix::fs::{FallocateFlags, fallocate};

use super::profile::Profile;

const SLOTS: u64 = 7 * 24 * 60;
const SLOT_BYTES: usize = 6_656;
const HEADER: [u8; 21] = *b"watchfire profiles 1\n";
const FILE_BYTES: u64 = offset(SLOTS - 1) + SLOT_BYTES as u64;
const _: () = assert!(FILE_BYTES <= 64 * 1024 * 1024);

pub(super) struct MinuteRing(pub File);

impl MinuteRing {
    /// Opens the file. `WouldBlock`: another server has it. A file with another header gets another name.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path)?;
        file.try_lock()?;
        let mut header = [0; HEADER.len()];
        file.read_at(&mut header, 0)?;
        if header != HEADER && file.metadata()?.len() > 0 {
            let renamed = path.with_added_extension("old");
            fs::rename(path, &renamed)?;
            let (file, renamed) = (path.display(), renamed.display());
            tracing::warn!(%file, %renamed, "renamed a file that has no profiles of this version");
            return MinuteRing::open(path);
        }
        file.write_all_at(&HEADER, 0)?;
        file.set_len(FILE_BYTES)?;
        // So that it can be written while the disk is full. Not every file system can reserve space.
        fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES).ok();
        Ok(MinuteRing(file))
    }

    /// The text of a minute; `None` when the file does not have it.
    pub fn read(&self, minute: u64) -> Option<String> {
        let mut slot = [0; SLOT_BYTES];
        self.0.read_exact_at(&mut slot, offset(minute)).ok()?;
        let mut text = String::new();
        GzDecoder::new(&slot[..]).read_to_string(&mut text).ok()?;
        text.strip_prefix(&format!("{minute}\n")).map(ToOwned::to_owned)
    }

    /// Writes a minute, with as many different stacks as fit: in a busy minute, the most frequent ones.
    pub fn write(&self, minute: u64, profile: &Profile) -> io::Result<()> {
        let mut stacks_max = profile.stacks.len();
        loop {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
            write!(gzip, "{minute}\n{}", profile.to_text(stacks_max))?;
            let slot = gzip.finish()?;
            if slot.len() <= SLOT_BYTES {
                return self.0.write_all_at(&slot, offset(minute));
            }
            stacks_max = stacks_max * 2 / 3;
        }
    }
}

const fn offset(minute: u64) -> u64 {
    HEADER.len() as u64 + minute % SLOTS * SLOT_BYTES as u64
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    fn profile(text: &str) -> Profile {
        let mut profile = Profile::empty(1);
        profile.add_text(text);
        profile
    }

    #[test]
    fn the_file_keeps_a_week_in_64_mib_and_the_most_frequent_stacks_of_a_busy_minute() {
        let folder = tempfile::tempdir().unwrap();
        let ring = MinuteRing::open(&folder.path().join("profiles")).unwrap();
        let idle = "1 0 shard-0\trun\tread\trun\n2 2 write\n";
        ring.write(5, &profile(idle)).unwrap();
        assert_eq!(ring.read(5).as_deref(), Some(idle));
        let functions = [("write", 2, 2), ("run", 1, 3), ("read", 0, 1)];
        let functions = functions.map(|(name, own, total)| (name.to_owned(), own, total));
        assert_eq!(profile(idle).functions(), functions);
        ring.write(5 + SLOTS, &profile(idle)).unwrap();
        assert_eq!((ring.read(5), ring.read(6)), (None, None));

        // Names that cannot be compressed.
        let line = |n: u16| format!("1 0 shard-0\t{:x?}\n", Sha256::digest(n.to_le_bytes()));
        let busy = (0..2_000).map(line).collect::<String>() + "9 0 shard-0\toften\n";
        ring.write(6, &profile(&busy)).unwrap();
        // Added twice, the rare stacks are still no function.
        ring.write(6, &profile(&(ring.read(6).unwrap() + &busy))).unwrap();
        let kept = profile(&ring.read(6).unwrap());
        assert_eq!((kept.samples(), &*kept.functions()[0].0), (4_018, "often"));
        assert!(kept.functions().iter().all(|(name, ..)| !name.is_empty()));
        assert_eq!(ring.0.metadata().unwrap().len(), FILE_BYTES);
    }

    #[test]
    fn a_minute_that_was_cut_is_missing_and_a_file_of_another_version_is_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profiles");
        let ring = MinuteRing::open(&path).unwrap();
        assert_eq!(MinuteRing::open(&path).err().unwrap().kind(), io::ErrorKind::WouldBlock);
        ring.write(1, &profile("1 0 a\n")).unwrap();
        ring.write(2, &profile("2 0 b\n")).unwrap();
        ring.0.set_len(offset(2) + 20).unwrap();
        drop(ring);
        let ring = MinuteRing::open(&path).unwrap();
        assert_eq!((ring.read(1).as_deref(), ring.read(2)), (Some("1 0 a\n"), None));
        drop(ring);

        fs::write(&path, "watchfire profiles 0\n").unwrap();
        assert_eq!(MinuteRing::open(&path).unwrap().read(1), None);
        assert_eq!(fs::read(path.with_extension("old")).unwrap(), b"watchfire profiles 0\n");
    }
}
