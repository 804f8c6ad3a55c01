//! The watch over the server: it names a trouble once when it begins and once when it ends.
//!
//! [`CHECKS`] has an entry for each kind of trouble. `docs/reference/diagnosis.md` has a section for
//! each, and a test compares the two.
//!
//! # When a trouble begins and ends
//!
//! A figure at a limit crosses it many times: an event loop that is busy for 91 % of a second, then for 89 %,
//! then for 92 %, is one trouble. With a threshold alone, this is three begins and two ends, each with a line
//! in the log and an event. Soon nobody reads them, and an alert that follows them rings all night.
//!
//! So a check sees a sample each second, and says yes or no. A trouble begins after `begins_after` samples in a
//! row with yes, and ends after `ends_after` in a row with no. One sample with the other answer starts the count
//! again. `shard_busy` has 4 and 5:
//!
//! ```text
//! second     1  2  3  4  5  6  7      8  9 10 11 12 13 14 15
//! over 90 %  y  y  n  y  y  y  y      n  n  y  n  n  n  n  n
//! count      1  2  0  1  2  3  begins 1  2  0  1  2  3  4  ends
//! ```
//!
//! The trouble begins with the fourth busy second in a row, and two calm seconds do not end it. At least
//! `ends_after` seconds pass between its begin and its end, and at least `begins_after` before it begins again. So
//! `shard_busy` has at most two events in 9 seconds, whatever the load does.
//!
//! `begins_after` is 1 where a single sample is a fact, such as a crash or a refused message, and more where it
//! may be chance. `ends_after` is long where the cause comes in bursts (30 s after the last refused origin), and
//! short where the figure is a state (NATS is connected, or it is not).
//!
//! A figure that is not known is no trouble: a server without NATS has no value of `nats_connected`, and its check
//! says no. While a trouble lasts, its summary follows the last sample that shows it, but `since_ms` stays.
//! Its end has the words of its begin, so that a reader of the log finds the two lines of one trouble.
//!
//! The memory is one count and at most two texts for each kind, and the last [`QUEUE_SECONDS`] of queued bytes:
//! only `queues_grow` looks back.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use watchfire::feature::{self, Figures, MetricWriter};

use super::answers::{Process, Trouble};
use super::figures::{Column, Columns, Row, SystemFigures};

/// The page that says how to confirm a trouble and what to do.
const PAGE: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/reference/diagnosis.md");

/// Seconds of queued bytes that are kept, to see whether they grow.
const QUEUE_SECONDS: usize = 5;
/// A queue of all sockets that is smaller is no trouble, even if it grows.
const GROWING_QUEUE_BYTES_MIN: f64 = 4.0 * 1024.0 * 1024.0;
/// A certificate should be replaced so long before its end.
const CERTIFICATE_SECONDS: f64 = 14.0 * 86_400.0;
/// A clock that differs by more from its steady growth has jumped.
const CLOCK_JUMP_SECONDS: f64 = 2.0;
/// Dropped connections a second that are more than one, which a client repairs by its next try. A second of the
/// recorder is a little longer or shorter, so the limit is between one and two.
const BACKLOG_DROPS: f64 = 1.5;
/// Refused requests a second to the operator's listener that are more than a mistake.
const ADMIN_REFUSALS: f64 = 2.0;

/// The state of the server at one sample.
pub(super) struct Look<'a> {
    pub row: &'a Row,
    pub columns: &'a Columns,
    pub processes: &'a BTreeMap<u16, Process>,
    /// Processes that do not serve clients, by their slots.
    pub missing: &'a [u16],
    pub system: &'a SystemFigures,
    /// `limits.queued_bytes_max`.
    pub queued_bytes_max: f64,
    /// Seconds by which the wall clock differs from the time that has passed since the last sample.
    pub clock_jump: f64,
    pub uptime: Duration,
}

impl Look<'_> {
    /// The value of a column, if it is known and above a threshold.
    fn above(&self, column: Column, threshold: f64) -> Option<f64> {
        self.get(column).filter(|value| *value > threshold)
    }

    fn get(&self, column: Column) -> Option<f64> {
        self.row.get(column)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Check {
    pub kind: &'static str,
    /// It begins after so many samples in a row that show it.
    begins_after: u32,
    /// It ends after so many that do not.
    ends_after: u32,
    /// The remedy, in one sentence.
    fix: &'static str,
    see: See,
}

/// Returns the fault, in one sentence; `None` when there is none.
#[derive(Clone, Copy)]
enum See {
    Own(fn(&Look<'_>, &Queue) -> Option<String>),
    OfFeature(fn(&Figures<'_>) -> Option<String>),
}

impl From<&feature::Trouble> for Check {
    fn from(trouble: &feature::Trouble) -> Self {
        let feature::Trouble { kind, begins_after, ends_after, fix, see } = *trouble;
        Check { kind, begins_after, ends_after, fix, see: See::OfFeature(see) }
    }
}

/// The queued bytes of the last seconds.
type Queue = VecDeque<f64>;

/// The kinds of trouble that every server can have, the most urgent first.
pub(super) const CHECKS: &[Check] = &[
    Check {
        kind: "process_silent",
        begins_after: 2,
        ends_after: 3,
        fix: "The supervisor restarts a process that has ended or hangs; the log has the reason.",
        see: See::Own(|look, _| {
            let slots: Vec<String> = look.missing.iter().map(u16::to_string).collect();
            (!slots.is_empty()).then(|| match &slots[..] {
                [slot] => format!("Process {slot} does not answer"),
                _ => format!("Processes {} do not answer", slots.join(", ")),
            })
        }),
    },
    Check {
        kind: "shard_busy",
        begins_after: 4,
        ends_after: 5,
        fix: "Spread the load over more cores, processes or machines, or send fewer messages.",
        see: See::Own(|look, _| {
            look.above(Column::BusyMax, 0.9)?;
            let loops = look.processes.iter().flat_map(|(process, figures)| {
                figures.busy.iter().enumerate().map(move |(shard, busy)| (process, shard, *busy))
            });
            let (process, shard, busy) = loops.max_by(|one, other| one.2.total_cmp(&other.2))?;
            Some(format!("Event loop {shard} of process {process} is {:.0} % busy", busy * 100.0))
        }),
    },
    Check {
        kind: "overloaded",
        begins_after: 1,
        ends_after: 10,
        fix: "An event loop cannot keep up; look for busy loops and for topics with many messages.",
        see: See::Own(|look, _| {
            let dropped =
                [Column::RefusalsShardQueue, Column::RefusalsBroadcastBacklog, Column::BusDrops];
            let sum: f64 = dropped.into_iter().filter_map(|column| look.get(column)).sum();
            (sum > 0.0)
                .then(|| format!("{sum:.0} messages a second are dropped, because a queue is full"))
        }),
    },
    Check {
        kind: "memory_low",
        begins_after: 3,
        ends_after: 10,
        fix: "Lower limits.sockets_max or the queues' limits, or give the server more memory.",
        see: See::Own(|look, _| {
            let (available, all) =
                (look.system.memory_available_bytes?, look.system.memory_max_bytes?);
            (available < all / 10)
                .then(|| format!("{} of {} of memory are left", bytes(available), bytes(all)))
        }),
    },
    Check {
        kind: "connections_near_limit",
        begins_after: 2,
        ends_after: 10,
        fix: "Raise limits.sockets_max, or start another machine.",
        see: See::Own(|look, _| {
            let (used, max) = (look.get(Column::Connections)?, look.get(Column::ConnectionsMax)?);
            let is_refusing = look.above(Column::RefusalsSocketsMax, 0.0).is_some();
            (is_refusing || used > max * 0.9)
                .then(|| format!("{used:.0} of {max:.0} connections are open"))
        }),
    },
    Check {
        kind: "descriptors_near_limit",
        begins_after: 2,
        ends_after: 10,
        fix: "Raise the limit of open files of the service, or use more processes.",
        see: See::Own(|look, _| {
            let (process, figures) = look
                .processes
                .iter()
                .find(|(_, figures)| figures.open_fds > figures.max_fds * 0.9)?;
            let (used, max) = (figures.open_fds, figures.max_fds);
            Some(format!("Process {process} has {used:.0} of {max:.0} files open"))
        }),
    },
    Check {
        kind: "slow_consumer",
        begins_after: 1,
        ends_after: 10,
        fix: "Sort the connections by queued bytes to see which clients do not read.",
        see: See::Own(|look, _| {
            if let Some(closes) = look.above(Column::ClosesSlow, 0.0) {
                return Some(format!(
                    "{closes:.1} clients a second are closed because they do not read"
                ));
            }
            let largest = look.above(Column::QueuedBytesMax, look.queued_bytes_max / 2.0)?;
            Some(format!("The queue of one client has {}", bytes(largest as u64)))
        }),
    },
    Check {
        kind: "queues_grow",
        begins_after: 3,
        ends_after: 10,
        fix: "The server sends more than its clients or its network take; sort the connections by queued bytes.",
        see: See::Own(|look, queue| {
            let now = look.above(Column::QueuedBytes, GROWING_QUEUE_BYTES_MIN)?;
            let before = *queue.front().filter(|_| queue.len() == QUEUE_SECONDS)?;
            (now > before * 1.1).then(|| {
                format!(
                    "{} wait for clients, and {QUEUE_SECONDS} s ago it was {}",
                    bytes(now as u64),
                    bytes(before as u64)
                )
            })
        }),
    },
    Check {
        kind: "backlog_overflow",
        begins_after: 1,
        ends_after: 10,
        fix: "Raise net.core.somaxconn, and look for busy event loops.",
        see: See::Own(|look, _| {
            let rate = look.above(Column::BacklogOverflows, BACKLOG_DROPS)?;
            Some(format!(
                "The kernel drops {rate:.0} new connections a second, because a queue is full"
            ))
        }),
    },
    Check {
        kind: "nats_away",
        begins_after: 2,
        ends_after: 3,
        fix: "Check the NATS servers, the network, and the credentials of cluster.nats.",
        see: See::Own(|look, _| {
            let (connected, all) = (look.get(Column::NatsConnected)?, look.get(Column::Processes)?);
            (connected < all).then(|| {
                format!("{:.0} of {all:.0} processes have no connection to NATS", all - connected)
            })
        }),
    },
    Check {
        kind: "nats_refuses",
        begins_after: 1,
        ends_after: 30,
        fix: "Check the permissions of the NATS user, and the limits of the NATS server such as max_payload; the log has the server's answer.",
        see: See::Own(|look, _| {
            let rate = look.above(Column::NatsRefusals, 0.0)?;
            Some(format!("NATS does not accept {rate:.1} messages a second of this server"))
        }),
    },
    Check {
        kind: "histories_away",
        begins_after: 2,
        ends_after: 3,
        fix: "Read the error in the log: JetStream of the NATS servers is off, has no leader or has no room.",
        see: See::Own(|look, _| {
            let streams = look.above(Column::HistoryStreamsAway, 0.0)?;
            Some(format!(
                "Messages to topics with a history are refused: {streams:.0} streams of JetStream cannot be used"
            ))
        }),
    },
    Check {
        kind: "backend_away",
        begins_after: 1,
        ends_after: 3,
        fix: "Check the backend at hooks.url; joins and messages are decided by hooks.on_failure until it answers.",
        see: See::Own(|look, _| {
            let open = look.above(Column::HooksBreakersOpen, 0.0)?;
            Some(format!("{open:.0} processes have stopped asking the backend, because it fails"))
        }),
    },
    Check {
        kind: "channels_crash",
        begins_after: 1,
        ends_after: 30,
        fix: "A callback of the application failed; the log has the message and the topic.",
        see: See::Own(|look, _| {
            look.above(Column::Crashes, 0.0)
                .map(|rate| format!("{rate:.1} channels a second crash"))
        }),
    },
    Check {
        kind: "origin_refused",
        begins_after: 1,
        ends_after: 30,
        fix: "If your own site is refused, add its origin to socket.check_origin or set server.public_url.",
        see: See::Own(|look, _| {
            let rate = look.above(Column::RefusalsOrigin, 0.0)?;
            Some(format!("{rate:.1} clients a second are refused because of their origin"))
        }),
    },
    Check {
        kind: "certificate_expires",
        begins_after: 1,
        ends_after: 1,
        fix: "Renew the files of tls.cert and tls.key, or look in the log for failed orders of tls.acme.",
        see: See::Own(|look, _| {
            let end = look.above(Column::CertificateEnd, 0.0)?;
            let left = end - look.row.time_ms as f64 / 1_000.0;
            let days = left / 86_400.0;
            (left < CERTIFICATE_SECONDS).then(|| match left > 0.0 {
                true => format!("The TLS certificate expires in {days:.1} days"),
                false => "The TLS certificate has expired".to_owned(),
            })
        }),
    },
    Check {
        kind: "disk_nearly_full",
        begins_after: 2,
        ends_after: 10,
        fix: "Free space on the disk of the state folder.",
        see: See::Own(|look, _| {
            let (available, all) = (look.system.disk_available_bytes?, look.system.disk_max_bytes?);
            (available < all / 20)
                .then(|| format!("{} of {} of the disk are left", bytes(available), bytes(all)))
        }),
    },
    Check {
        kind: "clock_jump",
        begins_after: 1,
        ends_after: 60,
        fix: "Check the time service of the machine; tokens and certificates depend on the clock.",
        see: See::Own(|look, _| {
            let jump = look.clock_jump;
            (jump.abs() > CLOCK_JUMP_SECONDS).then(|| format!("The clock jumped by {jump:.1} s"))
        }),
    },
    Check {
        kind: "operator_refused",
        begins_after: 2,
        ends_after: 30,
        fix: "If it is not you, somebody guesses the admin token: restrict who can reach admin.listen.",
        see: See::Own(|look, _| {
            let rate = look.above(Column::RefusalsAdmin, ADMIN_REFUSALS)?;
            Some(format!("{rate:.0} requests a second to the operator's listener are refused"))
        }),
    },
];

/// The troubles that last, for the metrics. Only the process that records has them.
pub(crate) struct TroubleMetrics {
    kinds: Vec<&'static str>,
    lasting: Mutex<Option<Vec<String>>>,
}

impl TroubleMetrics {
    pub fn new(watch: &Watch) -> Self {
        let kinds = watch.checks.iter().map(|(check, _)| check.kind).collect();
        TroubleMetrics { kinds, lasting: Mutex::default() }
    }

    pub(super) fn set(&self, troubles: &[Trouble]) {
        *self.lasting.lock() = Some(troubles.iter().map(|trouble| trouble.kind.clone()).collect());
    }

    /// Writes whether each trouble lasts.
    pub fn write_metrics(&self, writer: &mut MetricWriter) {
        let lasting = self.lasting.lock();
        let Some(lasting) = &*lasting else { return };
        let lasts = |kind: &str| lasting.iter().any(|lasting| lasting == kind);
        let value = |kind: &&'static str| (*kind, lasts(kind).into());
        let values: Vec<(&'static str, u64)> = self.kinds.iter().map(value).collect();
        writer.gauges("trouble", "Whether a trouble lasts", "kind", &values);
    }
}

/// A trouble that began or ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Began(Trouble),
    Ended(Trouble),
}

/// Watches over the samples.
pub(super) struct Watch {
    checks: Vec<(Check, CheckState)>,
    queue: Queue,
}

#[derive(Default)]
struct CheckState {
    /// Samples in a row that show the trouble, or when it lasts, that do not.
    in_a_row: u32,
    trouble: Option<Trouble>,
    /// The summary with which the trouble began.
    began_as: String,
}

impl Watch {
    /// Watches for the troubles of every server, and then for those of its features.
    pub fn new(of_features: &[feature::Trouble]) -> Self {
        let checks = CHECKS.iter().copied().chain(of_features.iter().map(Check::from));
        let checks = checks.map(|check| (check, CheckState::default()));
        Watch { checks: checks.collect(), queue: Queue::new() }
    }

    /// Looks at one sample. Returns what began and what ended with it.
    pub fn look(&mut self, look: &Look<'_>) -> Vec<Change> {
        let mut changes = Vec::new();
        let get = |name: &str| look.row.at(look.columns.place_of(name)?);
        let figures = Figures { get: &get, uptime: look.uptime };
        for (check, state) in &mut self.checks {
            let seen = match check.see {
                See::Own(see) => see(look, &self.queue),
                See::OfFeature(see) => see(&figures),
            };
            changes.extend(state.note(check, look.row.time_ms, seen));
        }
        self.queue.extend(look.get(Column::QueuedBytes));
        if self.queue.len() > QUEUE_SECONDS {
            self.queue.pop_front();
        }
        changes
    }

    /// The troubles that last: those of every server, the most urgent first, and then those of features.
    pub fn troubles(&self) -> Vec<Trouble> {
        self.checks.iter().filter_map(|(_, state)| state.trouble.clone()).collect()
    }
}

impl CheckState {
    fn note(&mut self, check: &Check, time_ms: u64, seen: Option<String>) -> Option<Change> {
        // Only samples against the present state count, in a row. So a value that swings around its
        // limit changes nothing.
        match (&mut self.trouble, seen) {
            (None, None) => self.in_a_row = 0,
            (Some(trouble), Some(summary)) => {
                trouble.summary = summary;
                self.in_a_row = 0;
            }
            (None, Some(summary)) => {
                self.in_a_row += 1;
                if self.in_a_row >= check.begins_after {
                    let page = format!("{PAGE}#{}", check.kind);
                    let (kind, fix) = (check.kind.to_owned(), check.fix.to_owned());
                    self.began_as.clone_from(&summary);
                    let trouble = Trouble { kind, since_ms: time_ms, summary, fix, page };
                    self.in_a_row = 0;
                    self.trouble = Some(trouble.clone());
                    return Some(Change::Began(trouble));
                }
            }
            (Some(_), None) => {
                self.in_a_row += 1;
                if self.in_a_row >= check.ends_after {
                    self.in_a_row = 0;
                    let summary = std::mem::take(&mut self.began_as);
                    let last = self.trouble.take()?;
                    return Some(Change::Ended(Trouble { summary, ..last }));
                }
            }
        }
        None
    }
}

/// A number of bytes for a person.
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} bytes"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use watchfire::feature::{Figure, FigureKind, Series};

    use super::*;

    /// A sample in which these columns have these values, and nothing else is known.
    fn row(time_ms: u64, columns: &[(Column, f32)]) -> Row {
        let mut values = vec![f32::NAN; Column::ALL.len()];
        for (column, value) in columns {
            values[*column as usize] = *value;
        }
        Row { time_ms, values }
    }

    fn look_at(watch: &mut Watch, row: &Row) -> Vec<Change> {
        look_with(watch, &Columns::default(), row)
    }

    fn look_with(watch: &mut Watch, columns: &Columns, row: &Row) -> Vec<Change> {
        let process = Process { busy: vec![0.2, 0.95], max_fds: 100.0, ..Process::default() };
        watch.look(&Look {
            row,
            columns,
            processes: &BTreeMap::from([(3, process)]),
            missing: &[],
            system: &SystemFigures::default(),
            queued_bytes_max: 1_000_000.0,
            clock_jump: 0.0,
            uptime: Duration::from_secs(1_000),
        })
    }

    #[test]
    fn a_trouble_is_named_once_when_it_begins_and_once_when_it_ends() {
        let mut watch = Watch::new(&[]);
        let mut began = Vec::new();
        for second in 1..=20 {
            began.extend(look_at(&mut watch, &row(second * 1_000, &[(Column::BusyMax, 0.95)])));
        }
        let [Change::Began(trouble)] = &began[..] else { panic!("{began:?}") };
        assert_eq!((&*trouble.kind, trouble.since_ms), ("shard_busy", 4_000));
        assert_eq!(trouble.summary, "Event loop 1 of process 3 is 95 % busy");
        assert!(trouble.page.ends_with("/docs/reference/diagnosis.md#shard_busy"));
        assert_eq!(watch.troubles().len(), 1);

        // One calm second does not end it.
        assert!(look_at(&mut watch, &row(21_000, &[(Column::BusyMax, 0.5)])).is_empty());
        assert!(look_at(&mut watch, &row(22_000, &[(Column::BusyMax, 0.95)])).is_empty());
        let mut ended = Vec::new();
        for second in 23..=40 {
            ended.extend(look_at(&mut watch, &row(second * 1_000, &[(Column::BusyMax, 0.5)])));
        }
        assert!(matches!(&ended[..], [Change::Ended(trouble)] if trouble.kind == "shard_busy"));
        assert_eq!(watch.troubles(), []);
    }

    #[test]
    fn one_connection_that_the_kernel_dropped_is_no_trouble_and_two_in_a_second_are() {
        let mut watch = Watch::new(&[]);
        let mut dropped = |at: u64, rate| {
            look_at(&mut watch, &row(at * 1_000, &[(Column::BacklogOverflows, rate)]))
        };
        assert_eq!([dropped(1, 1.1), dropped(2, 0.0), dropped(3, 1.0)], [const { Vec::new() }; 3]);
        let began = dropped(4, 1.8);
        assert!(matches!(&began[..], [Change::Began(one)] if one.kind == "backlog_overflow"));
    }

    #[test]
    fn queues_that_grow_are_told_from_queues_that_are_large() {
        let mut watch = Watch::new(&[]);
        let mut changes = Vec::new();
        for second in 1..=30 {
            let queued = [(Column::QueuedBytes, 50e6)];
            changes.extend(look_at(&mut watch, &row(second * 1_000, &queued)));
        }
        assert_eq!(changes, [], "large, but it does not grow");
        for second in 31..=45 {
            let queued = [(Column::QueuedBytes, 50e6 + (second - 30) as f32 * 4e6)];
            changes.extend(look_at(&mut watch, &row(second * 1_000, &queued)));
        }
        assert!(matches!(&changes[..], [Change::Began(trouble)] if trouble.kind == "queues_grow"));
    }

    #[test]
    fn a_feature_sees_its_own_figures_and_its_troubles_are_named() {
        let figure = Figure { name: "guests", kind: FigureKind::Sum(Series::all("guests")) };
        let trouble = feature::Trouble {
            kind: "too_many_guests",
            begins_after: 2,
            ends_after: 1,
            fix: "Close the door.",
            see: |figures| Some(format!("There are {} guests", figures.above("guests", 9.0)?)),
        };
        let mut watch = Watch::new(&[trouble]);
        let columns = Columns::with(&[figure]);
        let mut look = |at: u64, guests: f32| {
            let mut row = row(at, &[]);
            row.values.push(guests);
            look_with(&mut watch, &columns, &row)
        };
        assert_eq!([look(1, f32::NAN), look(2, 9.0), look(3, 10.0)], [const { Vec::new() }; 3]);
        let began = look(4, 11.0);
        assert!(matches!(&began[..], [Change::Began(trouble)]
            if trouble.kind == "too_many_guests" && trouble.summary == "There are 11 guests"));
        assert_eq!(look(5, 12.0), []);
        let ended = look(6, 3.0);
        let [Change::Ended(trouble)] = &ended[..] else { panic!("{ended:?}") };
        assert_eq!(trouble.summary, "There are 11 guests", "the words of its begin");
    }

    #[test]
    fn figures_that_are_not_known_are_no_trouble() {
        let mut watch = Watch::new(&[]);
        for second in 1..=100 {
            assert!(look_at(&mut watch, &row(second * 1_000, &[])).is_empty());
        }
    }

    #[test]
    fn each_kind_has_a_section_in_the_documentation() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/diagnosis.md");
        let page = std::fs::read_to_string(page).expect("a page");
        let sections = page.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'));
        let sections: Vec<&str> = sections.collect();
        let kinds: Vec<&str> = CHECKS.iter().map(|check| check.kind).collect();
        let own = &sections[..kinds.len().min(sections.len())];
        assert_eq!(own, kinds, "in the same order, and before those of features");
    }

    #[test]
    fn sizes_are_readable() {
        let texts = [0, 1023, 1536, 5 << 30].map(bytes);
        assert_eq!(texts, ["0 bytes", "1023 bytes", "1.5 KiB", "5.0 GiB"]);
    }
}
