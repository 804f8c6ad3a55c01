//! The limit of open files: each user of a process is one.

use std::os::fd::OwnedFd;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files besides the sockets of users.
pub(crate) const FILES_SPARE: u64 = 64;
/// The most file descriptors that the kernel table is grown for in advance; 8 bytes each.
const FILES_TABLE_MAX: u64 = 1 << 20;

/// Raises the soft limit of open files to the hard limit, and returns the result.
pub(crate) fn raise_open_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let is_raised = setrlimit(Resource::Nofile, raised).is_ok();
    (if is_raised { limit.maximum } else { limit.current }).unwrap_or(u64::MAX)
}

/// Grows the kernel table of open files to its final size. Each time it grows, a process with
/// several threads stops for 10 to 20 milliseconds.
pub(crate) fn make_room_for_files(any: &OwnedFd, files: u64) {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let last = files.saturating_add(FILES_SPARE).min(limit).saturating_sub(1);
    // If the number is rejected, no socket will have it.
    drop(fcntl_dupfd_cloexec(any, last.min(FILES_TABLE_MAX) as i32));
}
