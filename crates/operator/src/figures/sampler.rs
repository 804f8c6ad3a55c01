//! Rows of figures, from the metrics of all processes.
//!
//! The rate of a counter is computed for each process, and then added up. The difference of two sums would be wrong
//! when a process restarts: two processes have counted 100 and 100 joins, and two seconds later 110 and 6, because the
//! second one is new. The sums fell from 200 to 116, but there were 16 joins, so the rate is 8 a second.
//!
//! A process that is too busy to answer misses a sample. Its counters stay as they were, so its next sample has the
//! growth of the whole pause, divided by the whole pause. Only a process that is gone is forgotten (`retain`).

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use watchfire::feature::{FigureKind, Series};
use watchfire_metrics::{Buckets, Labels, Snapshot, Value};
use watchfire_types::NodeId;

use super::columns::{BUSY, Column, Columns, Kind, System};
use super::system::SystemFigures;
use crate::answers::Process;

/// The figures of one moment, in the order of [`Columns`]. A figure that is not known is NaN.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// Milliseconds of Unix time.
    pub time_ms: u64,
    pub values: Vec<f32>,
}

impl Row {
    pub fn get(&self, column: Column) -> Option<f64> {
        self.at(column as usize)
    }

    pub fn at(&self, place: usize) -> Option<f64> {
        let value = self.values.get(place).map(|value| f64::from(*value));
        value.filter(|value| !value.is_nan())
    }

    /// The row of a longer time: the mean of each column over the rows that know it. The largest value of
    /// a quantile, because a mean of quantiles says nothing.
    pub fn mean<'a>(
        columns: &Columns,
        time_ms: u64,
        rows: impl Iterator<Item = &'a Row> + Clone,
    ) -> Self {
        use FigureKind::{Largest, Quantile, Rate, Sum};
        let value = |(place, kind)| {
            let known = rows.clone().filter_map(|row| row.at(place));
            match kind {
                Kind::Metric(Quantile(..) | Largest(_)) | Kind::Busiest => {
                    known.reduce(f64::max).unwrap_or(f64::NAN)
                }
                Kind::Metric(Sum(_) | Rate(_)) | Kind::System(_) => {
                    let (count, sum) =
                        known.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
                    if count == 0 { f64::NAN } else { sum / f64::from(count) }
                }
            }
        };
        let values = columns.kinds().enumerate().map(|column| value(column) as f32);
        Row { time_ms, values: values.collect() }
    }
}

/// The counters of a process at an earlier sample, from which rates are computed.
#[derive(Default)]
struct Earlier {
    at: Duration,
    /// By the place of the column.
    counters: BTreeMap<usize, f64>,
    /// By the name of the histogram.
    buckets: HashMap<&'static str, Buckets>,
    busy: BTreeMap<Labels, f64>,
    cpu: f64,
}

/// Computes rows, and the figures of each process, from one sample to the next.
#[derive(Default)]
pub(crate) struct Sampler {
    pub columns: Columns,
    earlier: HashMap<NodeId, Earlier>,
    /// Drops of the kernel at an earlier sample, with its time.
    overflows: Option<(Duration, u64)>,
}

pub(crate) struct Sample {
    pub row: Row,
    /// By their nodes.
    pub processes: BTreeMap<u16, Process>,
}

impl Sampler {
    pub fn new(columns: Columns) -> Self {
        Sampler { columns, ..Sampler::default() }
    }

    /// The row for these metrics. `now` is the time on a clock that never jumps. Rates of the first
    /// sample of a process are not known.
    pub fn sample(
        &mut self,
        time_ms: u64,
        now: Duration,
        snapshots: &[(NodeId, Snapshot)],
        system: &SystemFigures,
    ) -> Sample {
        let mut totals = Totals::default();
        let mut processes = BTreeMap::new();
        for (node, snapshot) in snapshots {
            let before = self.earlier.remove(node);
            let seconds = before.as_ref().map_or(1.0, |before| seconds_between(before.at, now));
            let mut now = Earlier { at: now, ..Earlier::default() };
            let growth = Growth { before: before.as_ref(), now: &mut now, seconds };
            processes.insert(node.0, totals.add(&self.columns, snapshot, time_ms, growth));
            self.earlier.insert(*node, now);
        }
        let value = |(place, kind)| match kind {
            Kind::Metric(FigureKind::Quantile(metric, q)) => {
                totals.grown.get(metric).and_then(|grown| quantile(grown, q)).unwrap_or(f64::NAN)
            }
            Kind::Busiest => totals.busiest.unwrap_or(f64::NAN),
            Kind::System(figure) => self.of_system(figure, system, now).unwrap_or(f64::NAN),
            Kind::Metric(_) => totals.values.get(&place).copied().unwrap_or(f64::NAN),
        };
        let values = self.columns.kinds().enumerate().map(|each| value(each) as f32).collect();
        self.overflows = system.backlog_overflows.map(|count| (now, count));
        Sample { row: Row { time_ms, values }, processes }
    }

    /// Forgets the processes that are gone.
    pub fn retain(&mut self, is_up: impl Fn(NodeId) -> bool) {
        self.earlier.retain(|node, _| is_up(*node));
    }

    fn of_system(&self, figure: System, system: &SystemFigures, now: Duration) -> Option<f64> {
        match figure {
            System::MemoryAvailable => system.memory_available_bytes.map(|bytes| bytes as f64),
            System::DiskAvailable => system.disk_available_bytes.map(|bytes| bytes as f64),
            System::BacklogOverflows => {
                let (count, (at, last)) = system.backlog_overflows.zip(self.overflows)?;
                Some(count.saturating_sub(last) as f64 / seconds_between(at, now))
            }
        }
    }
}

/// The counters of one process at the last sample and at this one.
struct Growth<'a> {
    before: Option<&'a Earlier>,
    now: &'a mut Earlier,
    /// The time between the two.
    seconds: f64,
}

/// The values of all processes together.
#[derive(Default)]
struct Totals {
    /// By the place of the column.
    values: BTreeMap<usize, f64>,
    /// The values that each histogram got since the last sample.
    grown: HashMap<&'static str, Buckets>,
    busiest: Option<f64>,
}

impl Totals {
    /// Adds one process. Returns its own figures.
    fn add(
        &mut self,
        columns: &Columns,
        snapshot: &Snapshot,
        time_ms: u64,
        mut growth: Growth<'_>,
    ) -> Process {
        for (place, kind) in columns.kinds().enumerate() {
            let Kind::Metric(kind) = kind else { continue };
            let (value, merge): (_, fn(f64, f64) -> f64) = match kind {
                FigureKind::Sum(series) => (sum(snapshot, series), |one, other| one + other),
                FigureKind::Largest(series) => {
                    (numbers(snapshot, series).reduce(f64::max), f64::max)
                }
                FigureKind::Rate(series) => {
                    let count = sum(snapshot, series);
                    (count.and_then(|count| growth.rate(place, count)), |one, other| one + other)
                }
                FigureKind::Quantile(metric, _) => {
                    self.add_values(snapshot, metric, &mut growth);
                    continue;
                }
            };
            if let Some(value) = value {
                let of_all = self.values.entry(place);
                of_all.and_modify(|of_all| *of_all = merge(*of_all, value)).or_insert(value);
            }
        }
        let busy = self.busy(snapshot, &mut growth);
        let all = |metric| sum(snapshot, Series::all(metric)).unwrap_or(0.0);
        growth.now.cpu = all("process_cpu_seconds");
        let cpu = |before: &Earlier| grown(before.cpu, growth.now.cpu) / growth.seconds;
        let started_at = all("process_start_time_seconds");
        Process {
            uptime_seconds: (time_ms as f64 / 1_000.0 - started_at).max(0.0),
            clients: all("watchfire_channels_clients"),
            channels: all("watchfire_channels_joined"),
            topics: all("watchfire_hub_topics"),
            connections: all("watchfire_sockets_connections"),
            queued_bytes: all("watchfire_sockets_queued_bytes"),
            resident_bytes: all("process_resident_memory_bytes"),
            open_fds: all("process_open_fds"),
            max_fds: all("process_max_fds"),
            cpu: growth.before.map_or(0.0, cpu),
            busy,
            ..Process::default()
        }
    }

    /// Adds the values that a histogram got. Several quantiles are of the same histogram.
    fn add_values(&mut self, snapshot: &Snapshot, metric: &'static str, growth: &mut Growth<'_>) {
        if growth.now.buckets.contains_key(metric) {
            return;
        }
        let Some(now) = histogram(snapshot, metric) else { return };
        if let Some(before) = growth.before.and_then(|before| before.buckets.get(metric)) {
            let mut values = now.clone();
            for ((_, count), (_, before)) in values.counts.iter_mut().zip(&before.counts) {
                // A smaller count is that of a process which was started again.
                *count = count.checked_sub(*before).unwrap_or(*count);
            }
            match self.grown.get_mut(metric) {
                Some(of_all) => of_all.add(&values),
                None => drop(self.grown.insert(metric, values)),
            }
        }
        growth.now.buckets.insert(metric, now);
    }

    /// The busy share of each event loop.
    fn busy(&mut self, snapshot: &Snapshot, growth: &mut Growth<'_>) -> Vec<f64> {
        let mut shares = Vec::new();
        for (labels, total) in snapshot.series(BUSY) {
            let Some(total) = total.number() else { continue };
            let last = growth.before.and_then(|before| before.busy.get(labels));
            let share = last.map(|last| (grown(*last, total) / growth.seconds).min(1.0));
            self.busiest = self.busiest.into_iter().chain(share).reduce(f64::max);
            shares.push(share.unwrap_or(0.0));
            growth.now.busy.insert(labels.clone(), total);
        }
        shares
    }
}

impl Growth<'_> {
    /// The growth of a counter for each second; `None` at the first sample of a process.
    fn rate(&mut self, column: usize, count: f64) -> Option<f64> {
        self.now.counters.insert(column, count);
        // A counter that appears has begun at 0.
        let last = self.before?.counters.get(&column).copied().unwrap_or(0.0);
        Some(grown(last, count) / self.seconds)
    }
}

fn seconds_between(earlier: Duration, now: Duration) -> f64 {
    now.saturating_sub(earlier).as_secs_f64().max(0.001)
}

/// The growth of a counter. A smaller value is that of a process which was started again.
fn grown(last: f64, now: f64) -> f64 {
    if now >= last { now - last } else { now }
}

/// The values of the series of a metric that have the label.
fn numbers(snapshot: &Snapshot, series: Series) -> impl Iterator<Item = f64> {
    let has_label = move |labels: &Labels| {
        series.label.is_none_or(|(name, value)| {
            labels.iter().any(|label| (label.0.as_str(), label.1.as_str()) == (name, value))
        })
    };
    let all = snapshot.series(series.metric).iter();
    all.filter(move |(labels, _)| has_label(labels)).filter_map(|(_, value)| value.number())
}

/// Their sum; `None` when there is no such series.
fn sum(snapshot: &Snapshot, series: Series) -> Option<f64> {
    numbers(snapshot, series).reduce(|one, other| one + other)
}

/// The values of a histogram, with all labels together; `None` when there is no such histogram.
fn histogram(snapshot: &Snapshot, metric: &str) -> Option<Buckets> {
    let histograms = snapshot.series(metric).iter().filter_map(|(_, value)| match value {
        Value::Histogram(buckets) => Some(buckets.clone()),
        Value::Count(_) | Value::Number(_) => None,
    });
    histograms.reduce(|mut all, buckets| {
        all.add(&buckets);
        all
    })
}

/// A quantile of the values in buckets, interpolated within its bucket. `None`: there are no values.
fn quantile(buckets: &Buckets, q: f64) -> Option<f64> {
    let all: u64 = buckets.counts.iter().map(|(_, count)| count).sum();
    let wanted = all as f64 * q;
    let (mut low, mut below) = (0.0, 0.0);
    for &(high, count) in buckets.counts.iter().filter(|_| all > 0) {
        let up_to = below + count as f64;
        if up_to >= wanted {
            let inside = (count as f64).max(f64::MIN_POSITIVE);
            let is_last = high.is_infinite();
            return Some(if is_last {
                low
            } else {
                low + (high - low) * ((wanted - below) / inside)
            });
        }
        (low, below) = (high, up_to);
    }
    None
}

#[cfg(test)]
mod tests {
    use watchfire_metrics::{Family, Kind, Merge};

    use super::*;

    fn snapshot(joins: u64, fast: u64, slow: u64) -> Snapshot {
        let series = |labels: &[(&str, &str)], value| {
            let owned = labels.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            (owned.collect(), value)
        };
        let counts = vec![(0.001, fast), (0.01, slow), (f64::INFINITY, 0)];
        let families = [
            (
                "watchfire_channels_clients",
                Kind::Gauge,
                vec![
                    series(&[("transport", "websocket")], Value::Count(7)),
                    series(&[("transport", "longpoll")], Value::Count(2)),
                ],
            ),
            (
                "watchfire_sockets_queued_bytes_max",
                Kind::Gauge,
                vec![series(&[], Value::Count(50))],
            ),
            (
                "watchfire_channels_joins",
                Kind::Counter,
                vec![
                    series(&[("outcome", "accepted")], Value::Count(joins)),
                    series(&[("outcome", "refused")], Value::Count(1)),
                ],
            ),
            (
                BUSY,
                Kind::Counter,
                vec![series(&[("process", "0"), ("shard", "0")], Value::Number(joins as f64))],
            ),
            (
                "watchfire_channels_join_seconds",
                Kind::Histogram,
                vec![series(&[], Value::Histogram(Buckets { counts, sum: 0.0 }))],
            ),
        ];
        let families = families.map(|(name, kind, series)| {
            let (name, help) = (name.to_owned(), String::new());
            Family { name, help, kind, merge: Merge::Sum, series }
        });
        Snapshot { families: families.into() }
    }

    /// The row of a sample, two seconds after the last one.
    fn sample(sampler: &mut Sampler, snapshots: &[(NodeId, Snapshot)]) -> Row {
        let last = sampler.earlier.values().map(|earlier| earlier.at).max();
        let now = last.unwrap_or_default() + Duration::from_secs(2);
        sampler.sample(5_000, now, snapshots, &SystemFigures::default()).row
    }

    #[test]
    fn gauges_are_summed_and_counters_become_rates() {
        let mut sampler = Sampler::default();
        let one = |joins, fast, all| vec![(NodeId(0), snapshot(joins, fast, all))];
        let row = sample(&mut sampler, &one(10, 0, 0));
        assert_eq!(row.get(Column::ClientsWebsocket), Some(7.0));
        assert_eq!(row.get(Column::ClientsLongpoll), Some(2.0));
        assert_eq!(row.get(Column::Joins), None, "a rate needs two samples");
        assert_eq!(row.get(Column::NatsConnected), None, "the server has no such metric");

        let row = sample(&mut sampler, &one(14, 0, 100));
        assert_eq!(row.get(Column::Joins), Some(2.0));
        assert_eq!(row.get(Column::JoinsRefused), Some(0.0));
        assert_eq!(row.get(Column::BusyMax), Some(1.0), "never more than all of the time");
        let p50 = row.get(Column::JoinP50).unwrap();
        assert!((0.005..0.006).contains(&p50), "{p50}");
        let row = sample(&mut sampler, &one(14, 0, 100));
        assert_eq!(row.get(Column::JoinP50), None, "no join in this time");
    }

    #[test]
    fn processes_are_added_up_and_one_that_restarts_loses_nothing() {
        let mut sampler = Sampler::default();
        let both = |first, second| {
            vec![(NodeId(0), snapshot(first, 0, 0)), (NodeId(1), snapshot(second, 0, 0))]
        };
        sample(&mut sampler, &both(100, 100));
        let row = sample(&mut sampler, &both(110, 6));
        assert_eq!(row.get(Column::ClientsWebsocket), Some(14.0));
        assert_eq!(row.get(Column::QueuedBytesMax), Some(50.0), "the largest, not the sum");
        // Ten in the first process and six in the second, which was started again, in two seconds.
        assert_eq!(row.get(Column::Joins), Some(8.0 + 0.5));
    }

    #[test]
    fn the_rate_of_a_process_that_was_silent_is_that_of_the_whole_time() {
        let mut sampler = Sampler::default();
        let both =
            |second| vec![(NodeId(0), snapshot(0, 0, 0)), (NodeId(1), snapshot(second, 0, 0))];
        sample(&mut sampler, &both(100));
        sample(&mut sampler, &both(100)[..1]);
        assert_eq!(sample(&mut sampler, &both(108)).get(Column::Joins), Some(2.0));
        sampler.retain(|node| node == NodeId(0));
        assert_eq!(sample(&mut sampler, &both(200)).get(Column::Joins), Some(0.0), "it is new");
    }

    #[test]
    fn a_minute_has_means_and_the_largest_quantile() {
        let row = |joins: f32, p99: f32| {
            let mut values = vec![f32::NAN; Column::ALL.len()];
            values[Column::Joins as usize] = joins;
            values[Column::JoinP99 as usize] = p99;
            Row { time_ms: 1, values }
        };
        let minute = Row::mean(
            &Columns::default(),
            60_000,
            [row(2.0, 0.5), row(4.0, f32::NAN), row(f32::NAN, 0.25)].iter(),
        );
        assert_eq!(minute.get(Column::Joins), Some(3.0));
        assert_eq!(minute.get(Column::JoinP99), Some(0.5));
        assert_eq!(minute.get(Column::Cpu), None);
    }

    #[test]
    fn a_quantile_above_the_last_bound_is_that_bound() {
        let of = |counts: &[(f64, u64)]| Buckets { counts: counts.into(), sum: 0.0 };
        let buckets = of(&[(0.1, 1), (1.0, 0), (f64::INFINITY, 99)]);
        assert_eq!(quantile(&buckets, 0.5), Some(1.0));
        assert_eq!(quantile(&of(&[]), 0.5), None);
        assert_eq!(quantile(&of(&[(0.1, 0)]), 0.5), None);
    }
}
