//! The memory and the open files that a load needs of this machine, checked before anything starts.

use std::fs;

use rustix::thread::{CapabilitySet, capabilities};

use crate::drivers::processes::host::memory;

/// Memory of an idle connection: both ends in the kernel, in the server and in the users.
const CONNECTION_BYTES: u64 = 9_300;
/// Memory of a process without connections.
const PROCESS_BYTES: u64 = 4 << 20;
/// Memory that stays free.
const SPARE_BYTES: u64 = 1 << 30;
/// Open files of a process that are not connections of users.
const OTHER_FILES: u64 = 500;

/// Fails if this machine has too little memory or too few files for users and their server. `processes` are those of
/// the users; the server has about as many.
pub fn check(users: u64, processes: u64) -> Result<(), String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let available = memory(&read("/proc/meminfo")?, "MemAvailable:").unwrap_or(u64::MAX);
    check_memory(users, 2 * processes, available)?;
    // The limit does not bind a process with this capability.
    let is_bound =
        capabilities(None).map_or(true, |sets| !sets.effective.contains(CapabilitySet::SYS_ADMIN));
    if is_bound {
        check_files(users, 2 * processes, &read("/proc/sys/fs/file-nr")?)
    } else {
        Ok(())
    }
}

fn check_memory(users: u64, processes: u64, available: u64) -> Result<(), String> {
    let fixed = SPARE_BYTES.saturating_add(processes.saturating_mul(PROCESS_BYTES));
    let wanted = users.saturating_mul(CONNECTION_BYTES).saturating_add(fixed);
    if wanted <= available {
        return Ok(());
    }
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let fits = available.saturating_sub(fixed) / CONNECTION_BYTES;
    Err(format!(
        "{users} users with their server need {:.1} GiB of memory, and {:.1} GiB are available, enough for {fits}; \
         free some, or use fewer users",
        gib(wanted),
        gib(available)
    ))
}

fn check_files(users: u64, processes: u64, file_nr: &str) -> Result<(), String> {
    let numbers: Vec<u64> =
        file_nr.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [in_use, _, max] = numbers[..] else { return Ok(()) };
    let wanted = users.saturating_mul(2).saturating_add(processes.saturating_mul(OTHER_FILES));
    if in_use.saturating_add(wanted) <= max {
        return Ok(());
    }
    Err(format!(
        "{users} users with their server need {wanted} open files, and this machine allows {} more, enough for {}; \
         raise the limit with sysctl -w fs.file-max={}, or use fewer users",
        max.saturating_sub(in_use),
        max.saturating_sub(in_use).saturating_sub(processes * OTHER_FILES) / 2,
        in_use.saturating_add(wanted)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_does_not_fit_is_refused_with_the_number_that_fits() {
        assert_eq!(check_memory(2_000_000, 220, 22 << 30), Ok(()));
        let error = check_memory(1_000_000, 110, 4 << 30).unwrap_err();
        assert!(error.contains("need 10.1 GiB") && error.contains("enough for 296"), "{error}");
        assert!(check_memory(u64::MAX, 2, 4 << 30).is_err());
        let error = check_files(1_000_000, 100, "1000 0 1001000").unwrap_err();
        assert!(error.contains("enough for 475000"), "{error}");
        assert!(error.contains("fs.file-max=2051000"), "{error}");
        assert_eq!(check_files(400_000, 100, "1000 0 1001000"), Ok(()));
    }

    #[test]
    fn a_small_load_fits_this_machine() {
        assert_eq!(check(10, 1), Ok(()));
    }
}
