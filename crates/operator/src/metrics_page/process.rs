//! The metrics of the process, with the names that Prometheus prescribes.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use watchfire_metrics::{Family, Kind, Labels, Merge, Value};

/// The system's counts of this process. A count that cannot be read is missing.
pub(super) fn metrics() -> impl Iterator<Item = Family> {
    let stat = Stat::read();
    let of_stat = |value: fn(&Stat) -> f64| stat.as_ref().map(value);
    let nofile = getrlimit(Resource::Nofile).current;
    let metrics = [
        ("cpu_seconds", "User and system CPU time", of_stat(|stat| stat.cpu_seconds)),
        ("resident_memory_bytes", "Resident memory", of_stat(|stat| stat.resident_bytes as f64)),
        ("virtual_memory_bytes", "Virtual memory", of_stat(|stat| stat.virtual_bytes as f64)),
        ("threads", "Threads", of_stat(|stat| stat.threads as f64)),
        (
            "start_time_seconds",
            "Start of the process as a Unix time",
            stat.as_ref().and_then(Stat::started_at),
        ),
        ("open_fds", "Open file descriptors", open_fds().map(|fds| fds as f64)),
        ("max_fds", "Limit of open file descriptors", nofile.map(|max| max as f64)),
    ];
    metrics.into_iter().filter_map(|(name, help, value)| {
        let kind = if name == "cpu_seconds" { Kind::Counter } else { Kind::Gauge };
        // The server has run since its oldest process started. Each process has its own limit of descriptors.
        let merge = if name == "start_time_seconds" { Merge::Smallest } else { Merge::Sum };
        let (name, help) = (format!("process_{name}"), help.to_owned());
        Some(Family {
            name,
            help,
            kind,
            merge,
            series: vec![(Labels::new(), Value::Number(value?))],
        })
    })
}

/// A part of `/proc/self/stat` (proc_pid_stat(5)).
pub(super) struct Stat {
    cpu_seconds: f64,
    threads: u64,
    /// Since the system's start.
    start_ticks: u64,
    virtual_bytes: u64,
    pub resident_bytes: u64,
}

impl Stat {
    pub fn read() -> Option<Stat> {
        Stat::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Stat> {
        // The second field is the program's name, which may contain spaces and parentheses.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        // The manual counts fields from 1; the first one here is its third.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Stat {
            cpu_seconds: (field(14)? + field(15)?) as f64 / clock_ticks_per_second() as f64,
            threads: field(20)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * page_size() as u64,
        })
    }

    fn started_at(&self) -> Option<f64> {
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        let uptime: f64 = uptime.split(' ').next()?.parse().ok()?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .ok()
            .as_ref()
            .map(Duration::as_secs_f64)?;
        let after_boot = self.start_ticks as f64 / clock_ticks_per_second() as f64;
        // Whole seconds, because each call computes it from two clocks.
        Some((now - uptime + after_boot).round())
    }
}

/// The number of open descriptors. Linux 6.2 and later return it as the size of the folder; before
/// that, they are counted.
fn open_fds() -> Option<u64> {
    let folder = "/proc/self/fd";
    match fs::metadata(folder).ok()?.len() {
        // One of them reads the folder.
        0 => Some((fs::read_dir(folder).ok()?.count() as u64).saturating_sub(1)),
        count => Some(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_may_have_a_parenthesis_in_its_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 9000 1048576 10 0";
        let stat = Stat::parse(stat).expect("the fields are there");
        assert_eq!((stat.threads, stat.start_ticks, stat.virtual_bytes), (3, 9000, 1_048_576));
        assert_eq!(stat.resident_bytes, 10 * page_size() as u64);
        assert!((stat.cpu_seconds - 300.0 / clock_ticks_per_second() as f64).abs() < 1e-9);
        assert!(Stat::parse("7 (a) S 1").is_none());
    }

    #[test]
    fn this_process_has_counts() {
        let stat = Stat::read().expect("Linux has /proc");
        assert!(stat.resident_bytes > 0 && stat.virtual_bytes >= stat.resident_bytes);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        let age = now - stat.started_at().expect("Linux has /proc/uptime");
        assert!((-2.0..3600.0).contains(&age), "{age}");
        let before = open_fds().expect("Linux has /proc/self/fd");
        let files: Vec<_> =
            (0..500).map(|_| fs::File::open("/dev/null").expect("it opens")).collect();
        // Other tests of this process open and close some.
        assert!(open_fds().expect("it can be read") > before + 400, "{}", files.len());
    }
}
