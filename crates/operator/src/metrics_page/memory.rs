//! The rest of the memory of this process, besides the kinds that its parts count.
//!
//! The parts count what they hold for clients (`MetricWriter::memory`). The rest of the resident memory is:
//!
//! - `program`: the code and other files in memory, and all other memory that the process had at its first count,
//!   when it began to serve: stacks, buffers of event loops, settings;
//! - `allocator`: free memory that the allocator has kept since then. The allocator does not know which of it is
//!   resident, so it is at most what is left;
//! - `not_counted`: what is left after all. It is small when the parts count well, and a leak is in it;
//! - `kernel`: buffers of TCP and UDP of the whole machine. They are in no process, so the first one names them.
//!
//! An example: 180 MB are resident. Of these, 14 MB are files, 6 MB were there at the first count, and the parts count
//! 130 MB. The allocator has 60 MB free, of which 30 MB can be resident, so nothing is left to `not_counted`.
//!
//! The allocator of glibc walks its free pieces under its locks to count them: microseconds in a small program, and
//! milliseconds after a crowd has left. So it is asked rarely: not twice within [`PERIOD`], and for at most a
//! thousandth of the time.

use std::fs;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::param::page_size;
use watchfire::feature::MetricWriter;
use watchfire_metrics::Snapshot;

use super::process::Stat;

/// The shortest time between two questions to the allocator.
const PERIOD: Duration = Duration::from_secs(10);

/// Returns the free bytes that the allocator of the program keeps.
pub(crate) type FreeBytes = fn() -> u64;

/// The memory of this process.
pub(crate) struct Memory {
    free_bytes: Option<FreeBytes>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// At the first count: the memory that no file and no part has, and the free memory of the allocator.
    first: Option<(u64, u64)>,
    free: u64,
    /// When the allocator is asked again.
    next: Option<Instant>,
}

impl Memory {
    pub fn new(free_bytes: Option<FreeBytes>) -> Self {
        Memory { free_bytes, state: Mutex::default() }
    }

    /// Adds the rest to the kinds that the parts have written.
    pub fn write(&self, counted: &Snapshot, is_first_of_machine: bool, writer: &mut MetricWriter) {
        if is_first_of_machine && let Some(bytes) = kernel_bytes() {
            writer.memory("kernel", bytes as usize);
        }
        let Some(Stat { resident_bytes, .. }) = Stat::read() else { return };
        let Some(files) = file_bytes() else { return };
        let counts = counted.series("watchfire_memory_bytes").iter();
        let counted: f64 = counts.filter_map(|(_, value)| value.number()).sum();
        let anonymous = resident_bytes.saturating_sub(files);
        let mut state = self.state.lock();
        self.ask_allocator(&mut state);
        let free = state.free;
        let rest = anonymous.saturating_sub(counted as u64);
        let (first_rest, first_free) = *state.first.get_or_insert((rest, free));
        let rest = rest.saturating_sub(first_rest);
        let of_allocator = free.saturating_sub(first_free).min(rest);
        writer.memory("program", (files + first_rest) as usize);
        writer.memory("allocator", of_allocator as usize);
        writer.memory("not_counted", (rest - of_allocator) as usize);
    }

    fn ask_allocator(&self, state: &mut State) {
        let now = Instant::now();
        if let Some(free_bytes) = self.free_bytes
            && state.next.is_none_or(|next| next <= now)
        {
            state.free = free_bytes();
            state.next = Some(now + PERIOD.max(now.elapsed() * 1_000));
        }
    }
}

/// The resident memory of this process that files have: the third number of `/proc/self/statm`.
fn file_bytes() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split_ascii_whitespace().nth(2)?.parse::<u64>().ok()? * page_size() as u64)
}

/// The memory of the kernel's sockets, of the whole machine.
fn kernel_bytes() -> Option<u64> {
    Some(sum_of_mem(&fs::read_to_string("/proc/net/sockstat").ok()?) * page_size() as u64)
}

/// The sum of the numbers after `mem`.
fn sum_of_mem(sockstat: &str) -> u64 {
    let words = sockstat.split_ascii_whitespace();
    let pairs = words.clone().zip(words.skip(1)).filter(|(name, _)| *name == "mem");
    pairs.filter_map(|(_, number)| number.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_names_the_memory_of_its_sockets() {
        let text = "sockets: used 200\nTCP: inuse 5 orphan 0 tw 0 alloc 7 mem 12\nUDP: inuse 1 mem 3\nRAW: inuse 0\n";
        assert_eq!(sum_of_mem(text), 15);
        assert!(kernel_bytes().is_some() && file_bytes() > Some(0));
    }

    #[test]
    fn the_kinds_add_up_to_the_resident_memory() {
        let memory = Memory::new(Some(|| 7_000));
        let kinds = |counted| {
            let mut writer = MetricWriter::default();
            writer.memory("topics", counted);
            let counted = writer.into_snapshot();
            let mut writer = MetricWriter::default();
            memory.write(&counted, false, &mut writer);
            let written = writer.into_snapshot();
            let series = written.series("watchfire_memory_bytes");
            let bytes = |kind: &str| {
                let is_it = |(labels, _): &&(Vec<(String, String)>, _)| labels[0].1 == kind;
                series.iter().find(is_it).and_then(|(_, value)| value.number()).expect(kind)
            };
            ["program", "allocator", "not_counted"].map(bytes)
        };
        let [program, allocator, not_counted] = kinds(0);
        assert!(program > 1e6 && allocator == 0.0, "the allocator has freed nothing since");
        // Other tests of this process have memory too.
        assert!(not_counted < 16e6, "{not_counted}");
        let held = vec![1_u8; 64 << 20];
        let [_, _, not_counted] = kinds(0);
        assert!((60e6..90e6).contains(&not_counted), "{not_counted}");
        let [_, _, not_counted] = kinds(held.len());
        assert!(not_counted < 24e6, "{not_counted}");
    }
}
