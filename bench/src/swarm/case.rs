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
use super::peers::{LeecherTotals, Leechers, Seeder, copy_of};
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
/// Disk space that stays free.
const SPARE_BYTES: u64 = 2 << 30;

/// A system with a number of leechers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    pub system: System,
    pub leechers: usize,
    /// `None`: no rate limit.
    pub uplinks: Option<Uplinks>,
}

/// The programs and folders of a run.
pub struct Workspace {
    pub watchfire: PathBuf,
    pub kubo: Kubo,
    pub file: PathBuf,
    pub file_bytes: u64,
    /// The files of the current case; empty between cases.
    pub folder: PathBuf,
    /// The files of cases with one leecher, kept until their benchmark has ended. Removing many
    /// files slows the next program that creates many, and kubo creates thousands.
    pub aside: PathBuf,
    pub failed: PathBuf,
    pub memory_filler: MemoryFiller,
    pub timeout: Duration,
}

impl Workspace {
    fn put_aside(&self) -> Result<()> {
        let name = || format!("cannot move {}", self.folder.display());
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
    /// Seconds until each leecher had the whole file, ascending.
    pub finishes: Vec<f64>,
    /// CPU-seconds from the start until the last leecher had the file.
    pub seeder_cpu: f64,
    pub leechers_cpu: f64,
    /// CPU-seconds of the kernel threads for network work.
    pub kernel_cpu: f64,
    /// Bytes of the file that the seeder sent.
    pub seeder_sent: u64,
    /// Bytes that left the seeder, including headers; `None` without shaped uplinks.
    pub seeder_sent_on_wire: Option<u64>,
    /// Duplicate bytes that all leechers received.
    pub duplicate_bytes: u64,
    /// Peak memory of the seeder, and of the leecher with the highest peak.
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
    pub fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<Outcome> {
        clear(&workspace.folder)?;
        self.check_room(workspace)?;
        let outcome = self.run_in(workspace, progress);
        if outcome.is_err() {
            self.keep_logs(workspace)?;
        }
        if self.leechers == 1 {
            workspace.put_aside()?;
        }
        clear(&workspace.folder)?;
        outcome
    }

    fn keep_logs(&self, workspace: &Workspace) -> Result<()> {
        let key = self.system.key();
        let folder = workspace.failed.join(format!("{key}-{}", self.leechers));
        clear(&folder)?;
        for entry in fs::read_dir(&workspace.folder)? {
            let path = entry?.path();
            if let (true, Some(name)) = (path.is_file(), path.file_name()) {
                fs::copy(&path, folder.join(name))?;
            }
        }
        Ok(())
    }

    fn check_room(&self, workspace: &Workspace) -> Result<()> {
        let disk = statvfs(&workspace.folder)?;
        let free = disk.f_bavail * disk.f_frsize;
        let needed = (self.leechers as u64 + 1) * workspace.file_bytes + SPARE_BYTES;
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        ensure!(
            needed <= free,
            "the case may write {:.1} GiB, but {:.1} GiB of disk are free; free some, or use --percent",
            gib(needed),
            gib(free)
        );
        Ok(())
    }

    fn run_in(&self, workspace: &Workspace, progress: &Progress) -> Result<Outcome> {
        progress.show(&format!("{self}: starting"));
        let load_before = load_average();
        let testbed = Testbed::create(self.leechers + 1, self.uplinks)?;
        let seeder = self.seeder(workspace, &testbed)?;
        let mut leechers = self.leechers(workspace, &testbed, &*seeder)?;
        let daemons = softirq_daemons()?;
        let kernel_cpu_time =
            || -> Result<Duration> { daemons.iter().map(|id| Ok(Watched::new(*id).cpu()?)).sum() };

        progress.show(&format!("{self}: filling the memory"));
        let _release = workspace.memory_filler.fill()?;
        let (seeder_before, kernel_before) =
            (seeder.watched().cpu_with_children()?, kernel_cpu_time()?);
        let wire_before = testbed.seeder().sent_on_wire()?;
        let started_at = Instant::now();
        leechers.start()?;
        loop {
            leechers.poll(started_at.elapsed())?;
            let finished = leechers.finishes().len();
            if finished == self.leechers {
                break;
            }
            let is_late = started_at.elapsed() > workspace.timeout;
            let seconds = workspace.timeout.as_secs();
            ensure!(!is_late, "{finished} of {} had the file after {seconds} s", self.leechers);
            progress.show(&format!("{self}: {finished} have the file"));
            thread::sleep(PAUSE);
        }
        let leechers_cpu = leechers.cpu()?;
        let seeder_cpu = seeder.watched().cpu_with_children()? - seeder_before;
        let kernel_cpu = kernel_cpu_time()?.saturating_sub(kernel_before);
        let wire = testbed.seeder().sent_on_wire()?;

        let mut finishes: Vec<f64> =
            leechers.finishes().iter().map(Duration::as_secs_f64).collect();
        finishes.sort_by(f64::total_cmp);
        let seeder_peak = seeder.watched().peak_bytes()?;
        let LeecherTotals { peak_bytes: leecher_peak, duplicate_bytes } = leechers.end()?;
        let seeder_sent = seeder.end()?;
        self.check_copies(workspace)?;
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

    fn seeder(&self, workspace: &Workspace, testbed: &Testbed) -> Result<Box<dyn Seeder>> {
        let (node, file, blocks) = (testbed.seeder(), &workspace.file, self.system.blocks());
        Ok(match self.system.seeder() {
            Program::Watchfire => {
                Box::new(Share::start(&workspace.watchfire, node, file, blocks, &workspace.folder)?)
            }
            Program::Kubo => {
                Box::new(KuboSeeder::start(&workspace.kubo, node, file, blocks, &workspace.folder)?)
            }
            Program::Http | Program::Disk => Box::new(Nginx::start(node, file, &workspace.folder)?),
        })
    }

    fn leechers<'a>(
        &self,
        workspace: &'a Workspace,
        testbed: &'a Testbed,
        seeder: &dyn Seeder,
    ) -> Result<Box<dyn Leechers + 'a>> {
        let (nodes, folder) = (testbed.leechers(), &workspace.folder);
        let dials = dials(self.system.topology(), self.leechers, self.leechers as u64);
        Ok(match self.system.leecher() {
            Program::Watchfire => {
                Box::new(Gets::prepare(&workspace.watchfire, nodes, dials, seeder, folder))
            }
            Program::Kubo => {
                Box::new(Pins::prepare(&workspace.kubo, nodes, &dials, seeder, folder)?)
            }
            Program::Http => Box::new(curls(nodes, seeder, folder)),
            Program::Disk => Box::new(copiers(nodes, &workspace.file, folder)),
        })
    }

    /// Compares the first copy byte by byte, and the others by length. kubo writes no copy: it
    /// stores blocks, which it verifies.
    fn check_copies(&self, workspace: &Workspace) -> Result<()> {
        if self.system.leecher() == Program::Kubo {
            return Ok(());
        }
        for leecher in 0..self.leechers {
            let copy = copy_of(&workspace.folder, leecher);
            let bytes = fs::metadata(&copy).with_context(|| copy.display().to_string())?.len();
            ensure!(
                bytes == workspace.file_bytes,
                "the copy of leecher {leecher} has {bytes} bytes"
            );
        }
        let is_same = same_bytes(&workspace.file, &copy_of(&workspace.folder, 0))?;
        ensure!(is_same, "the copy of leecher 0 differs");
        Ok(())
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shaped = if self.uplinks.is_some() { ", slow uplinks" } else { "" };
        write!(f, "{}, 1 to {}{shaped}", self.system, self.leechers)
    }
}

/// Create a folder, or remove its content.
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
        let is_complete = other.read_exact(&mut right[..read]).is_ok();
        if !is_complete || left[..read] != right[..read] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_equal_if_every_byte_is() {
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
