//! Sends pending reports to the other processes, soon but not too often.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;
use watchfire_types::VitalThread;

/// The shortest time between two rounds of reports. It bounds the messages that clients can cause,
/// and is the longest delay of a report in this process.
const PAUSE: Duration = Duration::from_millis(1);

/// Entries in one report. The rest follows in the next round.
pub const REPORT_ENTRIES_MAX: usize = 1_024;

/// A part with reports for the other processes.
pub trait Reporter: Send + Sync {
    /// Sends what is due, at most [`REPORT_ENTRIES_MAX`] entries; true if more is due.
    fn send_reports(&self) -> bool;
}

/// Wakes the thread that sends reports.
#[derive(Clone, Debug)]
pub struct ReportWaker(SyncSender<()>);

/// Receives the wakes of a [`ReportWaker`].
pub struct ReportWakes(Receiver<()>);

impl ReportWaker {
    /// A waker, and its receiving end.
    pub fn new() -> (Self, ReportWakes) {
        // One pending wake is enough.
        let (sender, receiver) = sync_channel(1);
        (ReportWaker(sender), ReportWakes(receiver))
    }

    /// Makes the thread send reports soon.
    pub fn wake(&self) {
        self.0.try_send(()).ok();
    }
}

impl ReportWakes {
    /// Starts the thread. It ends when no part with a waker is left.
    pub fn start(self, reporters: &[Arc<dyn Reporter>]) -> io::Result<()> {
        let reporters: Vec<Weak<dyn Reporter>> = reporters.iter().map(Arc::downgrade).collect();
        thread::Builder::new().name("reports".into()).spawn(move || {
            let _vital = VitalThread::enter("reports");
            while let Ok(()) = self.0.recv() {
                while send_all(&reporters) {
                    thread::sleep(PAUSE);
                }
                thread::sleep(PAUSE);
            }
        })?;
        Ok(())
    }
}

fn send_all(reporters: &[Weak<dyn Reporter>]) -> bool {
    let mut has_more = false;
    for reporter in reporters.iter().filter_map(Weak::upgrade) {
        has_more |= reporter.send_reports();
    }
    has_more
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Counting {
        left: AtomicUsize,
        sent: std::sync::mpsc::Sender<usize>,
        waker: ReportWaker,
    }

    impl Reporter for Counting {
        fn send_reports(&self) -> bool {
            let left = self.left.fetch_sub(1, Ordering::Relaxed) - 1;
            self.sent.send(left).unwrap();
            left > 0
        }
    }

    #[test]
    fn all_reports_are_sent_after_one_wake_and_the_thread_ends_with_its_parts() {
        let (waker, wakes) = ReportWaker::new();
        let (sent, sending) = std::sync::mpsc::channel();
        let part = Arc::new(Counting { left: AtomicUsize::new(3), sent, waker });
        let parts: [Arc<dyn Reporter>; 1] = [part.clone()];
        wakes.start(&parts).unwrap();
        drop(parts);
        part.waker.wake();
        let next = || sending.recv_timeout(Duration::from_secs(20));
        assert_eq!([next(), next(), next()], [Ok(2), Ok(1), Ok(0)]);
        drop(part);
        assert!(next().is_err());
    }
}
