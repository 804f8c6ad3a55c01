//! The simulator with a trace of each event.

use std::io;

use watchfire_sim::Event;

use super::driver::{Driver, DriverError, Progress, SIMULATED};
use super::simulated::{self, Onlooker, Simulated};
use crate::definition::TrialPlan;
use crate::results::RunResult;

/// Simulates trials, and writes each event of each run as a line: the time in seconds, the kind, a node, the
/// other node or `-`, and bytes.
///
/// The same plan writes the same bytes on every machine. So the first line in which two traces differ is where a
/// change of the exchange begins to matter.
pub struct Traced<W> {
    out: W,
    error: Option<io::Error>,
}

impl<W: io::Write> Traced<W> {
    pub const fn new(out: W) -> Self {
        Traced { out, error: None }
    }

    /// Writes what is buffered. Fails if any line could not be written.
    pub fn finish(mut self) -> io::Result<W> {
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }
}

impl<W: io::Write> Driver for Traced<W> {
    fn name(&self) -> &'static str {
        SIMULATED
    }

    fn check(&self, plan: &TrialPlan) -> Result<(), DriverError> {
        Simulated.check(plan)
    }

    fn run(
        &mut self,
        plan: &TrialPlan,
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<RunResult, DriverError> {
        let head = writeln!(self.out, "# {}, seed {}", plan.name.escape_debug(), plan.seed);
        self.error = self.error.take().or(head.err());
        let mut lines = |event: &Event| {
            // The first error stops the trace, not the run.
            if self.error.is_none() {
                self.error = write_event(&mut self.out, plan, event).err();
            }
        };
        simulated::run(plan, &mut Onlooker { plan, watch, trace: Some(&mut lines) })
    }
}

fn write_event(out: &mut impl io::Write, plan: &TrialPlan, event: &Event) -> io::Result<()> {
    let Event { at, kind, from, to, bytes } = event;
    let other = to.map_or("-", |to| plan.nodes[to].name.as_str());
    let (seconds, nanos) = (at.as_secs(), at.subsec_nanos());
    let (kind, node) = (kind.name(), &plan.nodes[*from].name);
    writeln!(out, "{seconds}.{nanos:09} {kind} {node} {other} {bytes}")
}

#[cfg(test)]
mod tests {
    use super::super::simulated::tests::TEXT;
    use super::*;

    fn trace(text: &str) -> String {
        let mut driver = Traced::new(Vec::new());
        driver.run(&TrialPlan::first_of(text), &mut |_| {}).unwrap();
        String::from_utf8(driver.finish().unwrap()).unwrap()
    }

    #[test]
    fn the_same_seed_writes_the_same_trace_and_another_seed_another() {
        let text = format!("seed = 7\n{TEXT}").replace("latency =", "jitter = '5ms'\nlatency =");
        let first = trace(&text);
        assert_eq!(first, trace(&text));
        assert_ne!(first, trace(&text.replace("seed = 7", "seed = 8")));
    }

    #[test]
    fn a_trace_has_each_event_in_the_order_of_time() {
        let text = trace(TEXT);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("# c, s, seed 0"));
        let events: Vec<Vec<&str>> = lines.map(|line| line.split(' ').collect()).collect();
        let times: Vec<f64> = events.iter().map(|event| event[0].parse().unwrap()).collect();
        assert!(times.is_sorted());
        let of = |kind: &str| events.iter().filter(|event| event[1] == kind).count();
        assert_eq!((of("arrive"), of("finish"), of("leave")), (5, 4, 0));
        assert_eq!(of("store"), 4 * 11, "ten leaves and a root, at four peers");
        assert!(of("receive") > 0 && of("receive") <= of("send") * 2);
        let stored = events.iter().filter(|event| event[1] == "store" && event[2] == "peers-4");
        let bytes: u64 = stored.map(|event| event[4].parse::<u64>().unwrap()).sum();
        assert!(bytes > 10 << 20, "{bytes}");
        assert!(events.iter().any(|event| event[1] == "send" && event[3] == "peers-1"));
    }

    /// A disk without room.
    struct Full;

    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_stops_the_trace_and_not_the_run() {
        let mut driver = Traced::new(Full);
        let result = driver.run(&TrialPlan::first_of(TEXT), &mut |_| {}).unwrap();
        assert_eq!(result.unfinished(), 0);
        assert_eq!(driver.finish().err().unwrap().kind(), io::ErrorKind::StorageFull);
    }
}
