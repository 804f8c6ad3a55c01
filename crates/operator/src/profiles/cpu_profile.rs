//! Takes a CPU profile of this process.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, raise};
use pprof::{ProfilerGuard, ProfilerGuardBuilder};

use super::profile::Profile;

/// Samples for each second of CPU time. Not 100, so that work which repeats every 10 ms is not always or never seen.
const SAMPLES_PER_SECOND: i32 = 99;
/// The same for the profile of each minute: enough samples of a minute, for a fifth of the cost.
pub(super) const SAMPLES_PER_SECOND_KEPT: i32 = 19;

/// Whether someone has a profile of this process, or waits for the profile of each minute to give way.
static IS_RUNNING: AtomicBool = AtomicBool::new(false);
/// Whether the profile of each minute runs.
static IS_KEEPING: AtomicBool = AtomicBool::new(false);

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    #[error("cannot start a profile: another one of this process runs; wait until it has ended")]
    AlreadyRunning,
    #[error(
        "cannot take a profile: {0}; the profiler needs a folder for temporary files, which TMPDIR can name"
    )]
    Profiler(std::io::Error),
    #[error("cannot start the thread of a profile: {0}")]
    Thread(std::io::Error),
}

fn profiler_error(error: pprof::Error) -> ProfileError {
    ProfileError::Profiler(std::io::Error::other(error))
}

/// A CPU profile of this process, which runs until it is finished or dropped. There is one at a time.
///
/// ```
/// use watchfire_operator::CpuProfile;
///
/// let profile = CpuProfile::start().unwrap();
/// assert!(CpuProfile::start().is_err());
/// let profile = profile.finish().unwrap();
/// assert!(profile.flame_graph("An example").starts_with("<svg "));
/// ```
pub struct CpuProfile {
    guard: ProfilerGuard<'static>,
    /// Dropped last.
    turn: Turn,
}

/// The only profile of its kind in this process.
pub(super) struct Turn(&'static AtomicBool);

impl Turn {
    pub fn take() -> Result<Turn, ProfileError> {
        Turn::of(&IS_RUNNING).ok_or(ProfileError::AlreadyRunning)
    }

    /// `SeqCst`: when two profiles of different kinds begin at the same time, at least one sees the other.
    fn of(flag: &'static AtomicBool) -> Option<Turn> {
        (!flag.swap(true, Ordering::SeqCst)).then(|| Turn(flag))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl CpuProfile {
    /// Starts a profile. That takes a second or more the first time, because the program's debug information is read.
    pub fn start() -> Result<Self, ProfileError> {
        CpuProfile::start_in(Turn::take()?)
    }

    pub(super) fn start_in(turn: Turn) -> Result<Self, ProfileError> {
        // The profile of each minute sees that this one waits.
        while IS_KEEPING.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(20));
        }
        CpuProfile::start_with(turn, SAMPLES_PER_SECOND)
    }

    /// Starts a profile that is to end when another one is wanted. `None`: another one runs.
    pub(super) fn start_kept() -> Result<Option<Self>, ProfileError> {
        let turn = Turn::of(&IS_KEEPING).filter(|_| !CpuProfile::is_wanted());
        turn.map(|turn| CpuProfile::start_with(turn, SAMPLES_PER_SECOND_KEPT)).transpose()
    }

    /// Whether someone wants a profile of this process.
    pub(super) fn is_wanted() -> bool {
        IS_RUNNING.load(Ordering::SeqCst)
    }

    fn start_with(turn: Turn, samples_per_second: i32) -> Result<Self, ProfileError> {
        prepare()?;
        let guard = ProfilerGuardBuilder::default().frequency(samples_per_second).build();
        let guard = guard.map_err(profiler_error)?;
        Ok(CpuProfile { guard, turn })
    }

    /// Ends the profile, and finds the names of its functions. That can take seconds, too.
    pub fn finish(self) -> Result<Profile, ProfileError> {
        let CpuProfile { guard, turn } = self;
        let report = guard.report().build_unresolved().map_err(profiler_error)?;
        // Finding names is no part of the profile.
        drop(guard);
        let profile = Profile::resolve(report);
        drop(turn);
        Ok(profile)
    }
}

/// Has the handler of the signal read the program's unwinding tables, which it does the first time. That allocates
/// memory. So it must not happen where a thread is interrupted, perhaps within the allocator, but in this function.
fn prepare() -> Result<(), ProfileError> {
    static PREPARED: Once = Once::new();
    let mut outcome = Ok(());
    PREPARED.call_once(|| {
        // The clock interrupts no thread before a second of CPU time has passed.
        outcome = ProfilerGuardBuilder::default().frequency(1).build().map(|guard| {
            raise(Signal::SIGPROF).ok();
            drop(guard);
        });
    });
    outcome.map_err(profiler_error)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// Uses CPU time for a while.
    #[inline(never)]
    fn burn_for_the_profile(period: Duration) -> u64 {
        let began = Instant::now();
        let mut sum = 0_u64;
        while began.elapsed() < period {
            for number in 0..10_000_u64 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(number));
            }
        }
        sum
    }

    #[test]
    fn a_profile_names_the_function_that_works_and_only_one_runs() {
        let profile = CpuProfile::start().unwrap();
        assert!(matches!(CpuProfile::start(), Err(ProfileError::AlreadyRunning)));
        std::thread::Builder::new()
            .name("burner".into())
            .spawn(|| burn_for_the_profile(Duration::from_millis(500)))
            .unwrap()
            .join()
            .unwrap();
        let profile = profile.finish().unwrap();
        let graph = profile.flame_graph("a test");
        assert!(graph.contains("burn_for_the_profile") && graph.contains("burner"), "{graph}");
        // A dropped profile leaves its turn to the next.
        drop(CpuProfile::start().unwrap());
        drop(CpuProfile::start().unwrap());
    }
}
