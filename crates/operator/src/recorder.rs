//! Records once a second, on a thread of its own.
//!
//! The figures matter most while the event loops are overloaded. On one of them, the recorder would miss the seconds
//! that an operator wants to see. The first process of a machine records for all, so each figure and each trouble
//! exists once, however many processes there are.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant as SystemInstant, SystemTime};
use watchfire_types::VitalThread;

use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};
use watchfire::internal::unix_millis;

use super::answers::{Event, Trouble};
use super::figures::{Column, HistoryFileError, Row, Sampler, SystemFigures};
use super::process_calls::ProcessCalls;
use super::troubles::{Change, Look};

/// The time between two samples.
const PERIOD: Duration = Duration::from_secs(1);

/// Records until it is dropped.
pub(crate) struct RecorderThread {
    /// Dropping it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl RecorderThread {
    /// Starts the thread. `file` keeps the history over a restart; empty for none.
    pub fn start(calls: Arc<ProcessCalls>, file: PathBuf) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("recorder".into()).spawn(move || {
            let _vital = VitalThread::enter("recorder");
            runtime.block_on(async {
                let mut recorder = Recorder::new(calls, file);
                tokio::select! {
                    () = recorder.run() => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(RecorderThread { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for RecorderThread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

struct Recorder {
    calls: Arc<ProcessCalls>,
    /// The file that is not attached yet. `None`: it is, or there is none, or it cannot be used.
    file: Option<PathBuf>,
    /// The folder whose disk is watched; empty for none.
    folder: PathBuf,
    sampler: Sampler,
    started: SystemInstant,
    /// The wall clock and the steady clock at the last sample.
    last: Option<(SystemTime, SystemInstant)>,
}

impl Recorder {
    fn new(calls: Arc<ProcessCalls>, file: PathBuf) -> Self {
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        let sampler = Sampler::new(calls.record.lock().history.columns().clone());
        Recorder {
            calls,
            file: Some(file).filter(|file| !file.as_os_str().is_empty()),
            folder,
            sampler,
            started: SystemInstant::now(),
            last: None,
        }
    }

    async fn run(&mut self) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.attach_file();
            self.sample().await;
        }
    }

    /// Uses the file as soon as the server that this one replaces has ended.
    fn attach_file(&mut self) {
        let Some(file) = &self.file else { return };
        let attached = self.calls.record.lock().history.attach(file);
        match attached {
            Ok(()) => tracing::debug!(file = %file.display(), "the operator's history goes on"),
            Err(HistoryFileError::InUse) => return,
            Err(HistoryFileError::File(error)) => tracing::warn!(
                file = %file.display(), %error,
                "cannot use admin.history_file; the history is kept in memory only. Make the file writable for \
                 the server's user, or set another one"
            ),
        }
        self.file = None;
    }

    async fn sample(&mut self) {
        let snapshots = self.calls.server.metrics_page.collect().await;
        let system = SystemFigures::read(&self.folder);
        let (wall, steady) = (SystemTime::now(), SystemInstant::now());
        // The steady clock never jumps, so a difference is a step of the wall clock.
        let clock_jump =
            self.last.replace((wall, steady)).map_or(0.0, |(last_wall, last_steady)| {
                seconds_between(last_wall, wall) - (steady - last_steady).as_secs_f64()
            });
        let sample =
            self.sampler.sample(unix_millis(wall), steady - self.started, &snapshots, &system);
        let cluster = self.calls.link.cluster();
        self.sampler.retain(|node| cluster.is_up(node));
        let missing = cluster.missing();
        self.note_certificate(&sample.row);
        for (kind, text) in self.calls.server.metrics_page.take_events() {
            self.calls.note(kind, &text);
        }

        let mut record = self.calls.record.lock();
        let changes = record.watch.look(&Look {
            row: &sample.row,
            columns: &self.sampler.columns,
            processes: &sample.processes,
            missing: &missing,
            system: &system,
            queued_bytes_max: self.calls.server.limits.queued_bytes_max as f64,
            clock_jump,
            uptime: self.started.elapsed(),
        });
        for change in changes {
            record.history.add_event(event_of(&change, sample.row.time_ms));
        }
        self.calls.server.troubles.set(&record.watch.troubles());
        record.history.add(sample.row);
        record.processes = sample.processes;
        record.fill_tables(&snapshots);
        record.system = system;
        record.missing = missing;
    }

    /// Notes an event when a new certificate is served.
    fn note_certificate(&self, row: &Row) {
        if row.get(Column::CertificateLoads).is_some_and(|loads| loads > 0.0) {
            self.calls.note("certificate", "A new TLS certificate is served");
        }
    }
}

/// Logs what began or ended, and makes it an event.
fn event_of(change: &Change, time_ms: u64) -> Event {
    let (kind, text, trouble) = match change {
        Change::Began(Trouble { kind, summary, fix, page, .. }) => {
            tracing::warn!(kind, summary, fix, page, "trouble began");
            ("trouble_begin", summary.clone(), kind)
        }
        Change::Ended(Trouble { kind, summary, since_ms, .. }) => {
            let seconds = time_ms.saturating_sub(*since_ms) / 1_000;
            tracing::info!(kind, summary, seconds, "trouble ended");
            ("trouble_end", format!("Ended after {seconds} s: {summary}"), kind)
        }
    };
    Event { time_ms, kind: kind.to_owned(), text, trouble: trouble.clone() }
}

fn seconds_between(earlier: SystemTime, later: SystemTime) -> f64 {
    match later.duration_since(earlier) {
        Ok(time) => time.as_secs_f64(),
        Err(error) => -error.duration().as_secs_f64(),
    }
}
