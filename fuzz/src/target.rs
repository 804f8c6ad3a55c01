use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use watchfire_testkit::peak_of;

/// Maximum processor time for one input. It is generous because it also holds for debug builds on
/// busy machines: it finds endless work, not slow work.
const TIME_MAX: Duration = Duration::from_secs(2);

/// A function that must accept any bytes, within bounds of time and memory.
pub struct Target {
    /// Also the name of its folder of seeds.
    pub name: &'static str,
    run: fn(&[u8]),
    memory_bytes_max: usize,
    memory_bytes_max_per_byte: usize,
}

impl Target {
    /// A target that may take 64 KiB of memory, and 64 bytes for each byte of its input.
    pub const fn new(name: &'static str, run: fn(&[u8])) -> Self {
        let (memory_bytes_max, memory_bytes_max_per_byte) = (64 * 1024, 64);
        Target { name, run, memory_bytes_max, memory_bytes_max_per_byte }
    }

    /// A target that may take `memory_bytes_max`, for an input of any size.
    pub const fn with_memory(name: &'static str, run: fn(&[u8]), memory_bytes_max: usize) -> Self {
        Target { name, run, memory_bytes_max, memory_bytes_max_per_byte: 0 }
    }

    /// Runs the target with one input. The error names the broken promise.
    pub fn run(&self, input: &[u8]) -> Result<(), String> {
        let started = processor_time();
        let (ended, memory_bytes) =
            peak_of(|| panic::catch_unwind(AssertUnwindSafe(|| (self.run)(input))));
        let time = processor_time().saturating_sub(started);
        if let Err(panic) = ended {
            return Err(format!("panicked: {}", panic_message(&*panic)));
        }
        let memory_max = self.memory_bytes_max + self.memory_bytes_max_per_byte * input.len();
        if memory_bytes > memory_max {
            return Err(format!("took {memory_bytes} bytes of memory, {memory_max} are allowed"));
        }
        if time > TIME_MAX {
            return Err(format!("took {time:?}, {TIME_MAX:?} are allowed"));
        }
        Ok(())
    }
}

/// The processor time of this thread. Unlike wall time, it does not grow while other threads run.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure_with_its_message() {
        let target = Target::new("t", |input| assert!(input.is_empty(), "not empty"));
        assert!(target.run(b"").is_ok());
        assert_eq!(target.run(b"x").unwrap_err(), "panicked: not empty");
    }

    #[test]
    fn memory_beyond_the_bound_is_a_failure() {
        fn allocates(input: &[u8]) {
            drop(std::hint::black_box(vec![1_u8; input.len() * 1000]));
        }
        let target = Target::with_memory("t", allocates, 10_000);
        assert_eq!(target.run(&[0; 9]), Ok(()));
        assert!(target.run(&[0; 11]).unwrap_err().contains("bytes of memory"));
    }
}
