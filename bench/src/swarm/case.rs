//! One case: a seeder and leechers of one system, measured until the last leecher has the file.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::fs::statvfs;
use serde::Serialize;

use super::http::{Nginx, copiers, curls};
use super::kubo::{Kubo, KuboSeeder, Pins};
use super::memory_filler::MemoryFiller;
use super::peers::{Leechers, Seeder, Taken, copy_of};
use super::system::{Program, System};
use super::testbed::Testbed;
use super::topology::dials;
use super::uplinks::Uplinks;
use super::watchfire::{Gets, Share};
use crate::machine::load_average;
use crate::process::Watched;
use crate::progress::Progress;
use crate::scale::kernel::softirq_daemons;

const PAUSE: Duration = Duration::from_millis(10);
/// Disk that is to stay free.
const SPARE_BYTES: u64 = 2 << 30;

/// A system with a number of leechers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    pub system: System,
    pub leechers: usize,
    /// `None`: as fast as the machine can.
    pub uplinks: Option<Uplinks>,
}

/// The programs and folders of a run.
pub struct Place {
    pub watchfire: PathBuf,
    pub kubo: Kubo,
    pub file: PathBuf,
    pub file_bytes: u64,
    /// Everything that a case writes; empty in between.
    pub folder: PathBuf,
    /// What cases of one leecher wrote, until their benchmark has ended. A file system that many files
    /// were just removed from makes the next ones pay for it, and of those kubo makes thousands.
    pub aside: PathBuf,
    /// Where the logs of those go that failed.
    pub failed: PathBuf,
    pub memory_filler: MemoryFiller,
    /// The timeout of a case.
    pub patience: Duration,
}

impl Place {
    fn put_aside(&self) -> Result<()> {
        let name = || format!("cannot move {} aside", self.folder.display());
        fs::create_dir_all(&self.aside).with_context(name)?;
        let number = fs::read_dir(&self.aside).with_context(name)?.count();
        fs::rename(&self.folder, self.aside.join(number.to_string())).with_context(name)
    }

    /// Remove the files of finished cases.
    pub fn tidy(&self) -> Result<()> {
        clear(&self.aside)
    }
}

/// The measured values of one case.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Seconds after which leechers had all of it, ascending.
    pub finishes: Vec<f64>,
    /// CPU-seconds from the beginning until the last had it.
    pub seeder_cpu: f64,
    pub leechers_cpu: f64,
    /// CPU-seconds of the kernel threads for network work.
    pub kernel_cpu: f64,
    /// Bytes of the file that the seeder sent.
    pub seeder_sent: u64,
    /// Bytes that left the seeder, headers and all, when its uplink is its own.
    pub seeder_sent_on_wire: Option<u64>,
    /// Bytes that came to all leechers when they were no longer wanted.
    pub duplicate_bytes: u64,
    /// The most memory, of the seeder and of the leecher that had the most.
    pub seeder_peak: u64,
    pub leecher_peak: u64,
    /// The load average of the machine before the case.
    pub load_before: f64,
}

impl Outcome {
    pub fn last(&self) -> f64 {
        self.finishes.last().copied().unwrap_or(f64::NAN)
    }

    pub fn cpu(&self) -> f64 {
        self.seeder_cpu + self.leechers_cpu + self.kernel_cpu
    }
}

impl Case {
    pub fn run(&self, place: &Place, progress: &Progress) -> Result<Outcome> {
        clear(&place.folder)?;
        self.check_room(place)?;
        let outcome = self.run_in(place, progress);
        if outcome.is_err() {
            self.keep_logs(place)?;
        }
        if self.leechers == 1 {
            place.put_aside()?;
        }
        clear(&place.folder)?;
        outcome
    }

    /// Keep the logs of the programs.
    fn keep_logs(&self, place: &Place) -> Result<()> {
        let key = self.system.key();
        let folder = place.failed.join(format!("{key}-{}", self.leechers));
        clear(&folder)?;
        for entry in fs::read_dir(&place.folder)? {
            let path = entry?.path();
            if let (true, Some(name)) = (path.is_file(), path.file_name()) {
                fs::copy(&path, folder.join(name))?;
            }
        }
        Ok(())
    }

    fn check_room(&self, place: &Place) -> Result<()> {
        let disk = statvfs(&place.folder)?;
        let free = disk.f_bavail * disk.f_frsize;
        let needed = (self.leechers as u64 + 1) * place.file_bytes + SPARE_BYTES;
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        ensure!(
            needed <= free,
            "it may write {:.1} GiB and {:.1} GiB are free; free some, or give --percent",
            gib(needed),
            gib(free)
        );
        Ok(())
    }

    fn run_in(&self, place: &Place, progress: &Progress) -> Result<Outcome> {
        progress.show(&format!("{self}: starting"));
        let load_before = load_average();
        let testbed = Testbed::create(self.leechers + 1, self.uplinks)?;
        let seeder = self.seeder(place, &testbed)?;
        let mut leechers = self.leechers(place, &testbed, &*seeder)?;
        let daemons = softirq_daemons()?;
        let of_kernel =
            || -> Result<Duration> { daemons.iter().map(|id| Ok(Watched::new(*id).cpu()?)).sum() };

        progress.show(&format!("{self}: warming the memory"));
        let _release = place.memory_filler.fill()?;
        let (seeder_before, kernel_before) = (seeder.watched().cpu_in_all()?, of_kernel()?);
        let wire_before = testbed.seeder().sent_on_wire()?;
        let started_at = Instant::now();
        leechers.go()?;
        loop {
            leechers.look(started_at.elapsed())?;
            let finished = leechers.finishes().len();
            if finished == self.leechers {
                break;
            }
            let late = started_at.elapsed() > place.patience;
            let patience = place.patience.as_secs();
            ensure!(!late, "{finished} of {} had it after {patience} s", self.leechers);
            progress.show(&format!("{self}: {finished} have it"));
            thread::sleep(PAUSE);
        }
        let leechers_cpu = leechers.cpu()?;
        let seeder_cpu = seeder.watched().cpu_in_all()? - seeder_before;
        let kernel_cpu = of_kernel()?.saturating_sub(kernel_before);
        let wire = testbed.seeder().sent_on_wire()?;

        let mut finishes: Vec<f64> =
            leechers.finishes().iter().map(Duration::as_secs_f64).collect();
        finishes.sort_by(f64::total_cmp);
        let seeder_peak = seeder.watched().peak_bytes()?;
        let Taken { peak_bytes: leecher_peak, duplicate_bytes } = leechers.end()?;
        let seeder_sent = seeder.end()?;
        self.check_copies(place)?;
        Ok(Outcome {
            finishes,
            seeder_cpu: seeder_cpu.as_secs_f64(),
            leechers_cpu: leechers_cpu.as_secs_f64(),
            kernel_cpu: kernel_cpu.as_secs_f64(),
            seeder_sent,
            seeder_sent_on_wire: wire.zip(wire_before).map(|(now, before)| now - before),
            duplicate_bytes,
            seeder_peak,
            leecher_peak,
            load_before,
        })
    }

    fn seeder(&self, place: &Place, testbed: &Testbed) -> Result<Box<dyn Seeder>> {
        let (node, file, blocks) = (testbed.seeder(), &place.file, self.system.blocks());
        Ok(match self.system.seeder() {
            Program::Watchfire => {
                Box::new(Share::start(&place.watchfire, node, file, blocks, &place.folder)?)
            }
            Program::Kubo => {
                Box::new(KuboSeeder::start(&place.kubo, node, file, blocks, &place.folder)?)
            }
            Program::Http | Program::Disk => Box::new(Nginx::start(node, file, &place.folder)?),
        })
    }

    fn leechers<'a>(
        &self,
        place: &'a Place,
        testbed: &'a Testbed,
        seeder: &dyn Seeder,
    ) -> Result<Box<dyn Leechers + 'a>> {
        let (nodes, folder) = (testbed.leechers(), &place.folder);
        let dials = dials(self.system.topology(), self.leechers, self.leechers as u64);
        Ok(match self.system.leecher() {
            Program::Watchfire => {
                Box::new(Gets::prepare(&place.watchfire, nodes, dials, seeder, folder))
            }
            Program::Kubo => Box::new(Pins::prepare(&place.kubo, nodes, &dials, seeder, folder)?),
            Program::Http => Box::new(curls(nodes, seeder, folder)),
            Program::Disk => Box::new(copiers(nodes, &place.file, folder)),
        })
    }

    /// What was written is the file: the first copy byte by byte, the others by their length. kubo keeps
    /// blocks, and hashes each of them.
    fn check_copies(&self, place: &Place) -> Result<()> {
        if self.system.leecher() == Program::Kubo {
            return Ok(());
        }
        for leecher in 0..self.leechers {
            let copy = copy_of(&place.folder, leecher);
            let bytes = fs::metadata(&copy).with_context(|| copy.display().to_string())?.len();
            ensure!(bytes == place.file_bytes, "leecher {leecher} has {bytes} bytes of it");
        }
        let is_same = same_bytes(&place.file, &copy_of(&place.folder, 0))?;
        ensure!(is_same, "leecher 0 has another file");
        Ok(())
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shaped = if self.uplinks.is_some() { ", slow uplinks" } else { "" };
        write!(f, "{}, 1 to {}{shaped}", self.system, self.leechers)
    }
}

/// An empty folder.
fn clear(folder: &Path) -> Result<()> {
    let name = || format!("cannot clear {}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(name)?;
    }
    fs::create_dir_all(folder).with_context(name)
}

fn same_bytes(one: &Path, other: &Path) -> Result<bool> {
    let open = |path| anyhow::Ok(BufReader::with_capacity(1 << 20, File::open(path)?));
    let (mut one, mut other) = (open(one)?, open(other)?);
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let read = one.read(&mut left)?;
        if read == 0 {
            return Ok(other.read(&mut right[..1])? == 0);
        }
        let whole = other.read_exact(&mut right[..read]).is_ok();
        if !whole || left[..read] != right[..read] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_the_same_when_every_byte_is() {
        let folder = std::env::temp_dir().join(format!("bench-same-{}", std::process::id()));
        clear(&folder).unwrap();
        let write = |name: &str, bytes: &[u8]| {
            fs::write(folder.join(name), bytes).unwrap();
            folder.join(name)
        };
        let one = write("one", &[7; 3_000_000]);
        let mut changed = vec![7; 3_000_000];
        changed[2_999_999] = 8;
        for (other, is_same) in [
            (write("same", &[7; 3_000_000]), true),
            (write("changed", &changed), false),
            (write("shorter", &[7; 2_999_999]), false),
            (write("longer", &[7; 3_000_001]), false),
        ] {
            assert_eq!(same_bytes(&one, &other).unwrap(), is_same, "{}", other.display());
        }
        clear(&folder).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir(&folder).unwrap();
    }
}
