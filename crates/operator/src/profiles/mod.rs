//! CPU profiles of a process: which functions it spends its time in.
//!
//! While a profile runs, the kernel interrupts whichever thread works, 99 times for each second of CPU time, and
//! the handler of the signal notes its stack. Nothing runs otherwise.
//!
//! [`CpuProfile`] takes a profile. [`Profile`] is the result, which `pprof_format` and `flame_graph` write. A `Job`
//! takes one on a thread, and [`ProfileCalls`] answers the operator. `kept` has a profile of each minute.

#[cfg(feature = "profiles")]
mod cpu_profile;
#[cfg(feature = "profiles")]
mod flame_graph;
#[cfg(feature = "profiles")]
mod job;
#[cfg(feature = "profiles")]
mod kept;
#[cfg(any(test, feature = "profiles"))]
mod messages;
#[cfg(feature = "profiles")]
mod minute_ring;
#[cfg(not(feature = "profiles"))]
mod not_built;
#[cfg(feature = "profiles")]
mod pprof_format;
#[cfg(feature = "profiles")]
mod profile;
#[cfg(feature = "profiles")]
mod routes;

#[cfg(feature = "profiles")]
pub use self::cpu_profile::{CpuProfile, ProfileError};
#[cfg(test)]
pub(crate) use self::messages::message_samples;
#[cfg(not(feature = "profiles"))]
pub(crate) use self::not_built::ProfileCalls;
#[cfg(feature = "profiles")]
pub use self::profile::Profile;
#[cfg(feature = "profiles")]
pub(crate) use self::routes::ProfileCalls;
