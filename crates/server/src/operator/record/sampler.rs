//! Rows of the history, from the metrics of all processes.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::Serialize;
use watchfire_types::NodeId;

use super::columns::{BUSY, COLUMNS, Kind, Series, System};
use super::system::SystemFigures;

/// The figures of one moment, in the order of [`COLUMNS`]. A figure that is not known is NaN.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::operator) struct Row {
    /// Milliseconds of Unix time.
    pub time_ms: u64,
    pub values: Vec<f32>,
}

impl Row {
    /// The value of a column; `None` when it is not known.
    pub fn get(&self, position: usize) -> Option<f64> {
        self.values.get(position).map(|value| f64::from(*value)).filter(|value| !value.is_nan())
    }

    /// The row of a minute: the mean of each column over the seconds that know it. The largest value of
    /// a quantile, because a mean of quantiles says nothing.
    pub fn mean(time_ms: u64, rows: &[Row]) -> Self {
        let value = |position: usize| {
            let known = rows.iter().filter_map(|row| row.get(position));
            let column = COLUMNS.get(position).map(|column| column.kind);
            match column {
                Some(Kind::Quantile(..) | Kind::Largest(_) | Kind::Busiest) => {
                    known.reduce(f64::max).unwrap_or(f64::NAN)
                }
                _ => {
                    let (count, sum) =
                        known.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
                    if count == 0 { f64::NAN } else { sum / f64::from(count) }
                }
            }
        };
        let values = (0..COLUMNS.len()).map(|position| value(position) as f32);
        Row { time_ms, values: values.collect() }
    }
}

/// The figures of one process at the last sample.
#[derive(Clone, Debug, Default, Serialize)]
pub(in crate::operator) struct ProcessFigures {
    pub clients: f64,
    pub channels: f64,
    pub topics: f64,
    pub connections: f64,
    pub queued_bytes: f64,
    pub resident_bytes: f64,
    /// Cores in use.
    pub cpu: f64,
    /// The busy share of each event loop.
    pub busy: Vec<f64>,
    pub open_fds: f64,
    pub max_fds: f64,
    /// Unix time in seconds.
    #[serde(skip)]
    pub started_at: f64,
}

/// The metrics of one process.
#[derive(Default)]
struct Metrics<'a> {
    /// By the name of the metric: the labels and the value of each series.
    series: HashMap<&'a str, Vec<(&'a str, f64)>>,
}

impl<'a> Metrics<'a> {
    fn parse(text: &'a str) -> Self {
        let mut series = HashMap::<&str, Vec<_>>::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (metric, labels) = match name.split_once('{') {
                Some((metric, labels)) => (metric, labels.trim_end_matches('}')),
                None => (name, ""),
            };
            series.entry(metric).or_default().push((labels, value));
        }
        Metrics { series }
    }

    fn of(&self, metric: &str) -> impl Iterator<Item = (&'a str, f64)> + '_ {
        self.series.get(metric).into_iter().flatten().copied()
    }

    /// The values of the series with a label; `None` when there is none.
    fn reduce(&self, series: Series, reduce: fn(f64, f64) -> f64) -> Option<f64> {
        let has_label = |labels: &str| series.label.is_none_or(|label| labels.contains(label));
        let values = self.of(series.metric).filter(|(labels, _)| has_label(labels));
        values.map(|(_, value)| value).reduce(reduce)
    }

    fn sum(&self, metric: &'static str) -> f64 {
        self.reduce(Series { metric, label: None }, add).unwrap_or(0.0)
    }
}

fn add(one: f64, other: f64) -> f64 {
    one + other
}

/// The counters of a process at an earlier sample, from which rates are computed.
#[derive(Default)]
struct Earlier {
    /// The time of the sample.
    at: Duration,
    /// By position in [`COLUMNS`].
    counters: HashMap<usize, f64>,
    /// By the name of a histogram: the counts of its buckets, with their bounds.
    buckets: HashMap<&'static str, Vec<(f64, f64)>>,
    busy: BTreeMap<String, f64>,
    cpu: f64,
}

/// Computes rows, and the figures of each process, from one sample to the next.
#[derive(Default)]
pub(in crate::operator) struct Sampler {
    earlier: HashMap<NodeId, Earlier>,
    /// Drops of the kernel at an earlier sample, with its time.
    overflows: Option<(Duration, u64)>,
}

/// The result of one sample.
pub(in crate::operator) struct Sample {
    pub row: Row,
    pub processes: BTreeMap<u16, ProcessFigures>,
}

impl Sampler {
    /// The row for these metrics. `now` is the time on a clock that never jumps. Rates of the first
    /// sample of a process are not known.
    pub fn sample(
        &mut self,
        time_ms: u64,
        now: Duration,
        texts: &[(NodeId, String)],
        system: &SystemFigures,
    ) -> Sample {
        let mut values = vec![f64::NAN; COLUMNS.len()];
        let mut deltas = HashMap::<&str, Vec<(f64, f64)>>::new();
        let mut processes = BTreeMap::new();
        let mut busiest = f64::NAN;
        for (node, text) in texts {
            let metrics = Metrics::parse(text);
            let before = self.earlier.remove(node);
            let seconds = before.as_ref().map_or(1.0, |before| seconds_since(before.at, now));
            let mut current = Earlier { at: now, ..Earlier::default() };
            for (position, column) in COLUMNS.iter().enumerate() {
                let value = &mut values[position];
                match column.kind {
                    Kind::Sum(series) => merge(value, metrics.reduce(series, add), add),
                    Kind::Largest(series) => {
                        merge(value, metrics.reduce(series, f64::max), f64::max)
                    }
                    Kind::Rate(series) => {
                        let Some(count) = metrics.reduce(series, add) else { continue };
                        current.counters.insert(position, count);
                        let last = before.as_ref().and_then(|b| b.counters.get(&position));
                        let rate = last.map(|last| grown(*last, count) / seconds);
                        // A counter that appears has begun at 0.
                        let rate = rate.or(before.as_ref().map(|_| count / seconds));
                        merge(value, rate, add);
                    }
                    // Several quantiles are of the same histogram.
                    Kind::Quantile(metric, _) if current.buckets.contains_key(metric) => {}
                    Kind::Quantile(metric, _) => {
                        let buckets = buckets(&metrics, metric);
                        if let Some(last) = before.as_ref().and_then(|b| b.buckets.get(metric)) {
                            add_growth(deltas.entry(metric).or_default(), last, &buckets);
                        }
                        current.buckets.insert(metric, buckets);
                    }
                    Kind::Busiest | Kind::System(_) => {}
                }
            }
            let mut busy = Vec::new();
            for (labels, total) in metrics.of(BUSY) {
                let last = before.as_ref().and_then(|before| before.busy.get(labels));
                let share = last.map(|last| (grown(*last, total) / seconds).min(1.0));
                merge(&mut busiest, share, f64::max);
                busy.push(share.unwrap_or(0.0));
                current.busy.insert(labels.to_owned(), total);
            }
            current.cpu = metrics.sum("process_cpu_seconds_total");
            let cpu =
                before.as_ref().map_or(0.0, |before| grown(before.cpu, current.cpu) / seconds);
            processes.insert(node.0, ProcessFigures { cpu, busy, ..figures(&metrics) });
            self.earlier.insert(*node, current);
        }
        for (position, column) in COLUMNS.iter().enumerate() {
            match column.kind {
                Kind::Quantile(metric, q) => {
                    let of_all = deltas.get(metric).map_or(&[][..], Vec::as_slice);
                    values[position] = quantile(of_all, q).unwrap_or(f64::NAN);
                }
                Kind::Busiest => values[position] = busiest,
                Kind::System(figure) => values[position] = self.of_system(figure, system, now),
                Kind::Sum(_) | Kind::Largest(_) | Kind::Rate(_) => {}
            }
        }
        self.overflows = system.backlog_overflows.map(|count| (now, count));
        let row = Row { time_ms, values: values.iter().map(|value| *value as f32).collect() };
        Sample { row, processes }
    }

    /// Forgets the processes that are gone.
    pub fn retain(&mut self, is_up: impl Fn(NodeId) -> bool) {
        self.earlier.retain(|node, _| is_up(*node));
    }

    fn of_system(&self, figure: System, system: &SystemFigures, now: Duration) -> f64 {
        let value = match figure {
            System::MemoryAvailable => system.memory_available_bytes.map(|bytes| bytes as f64),
            System::DiskAvailable => system.disk_available_bytes.map(|bytes| bytes as f64),
            System::BacklogOverflows => {
                system.backlog_overflows.zip(self.overflows).map(|(count, (at, last))| {
                    count.saturating_sub(last) as f64 / seconds_since(at, now)
                })
            }
        };
        value.unwrap_or(f64::NAN)
    }
}

/// The seconds between two samples.
fn seconds_since(earlier: Duration, now: Duration) -> f64 {
    now.saturating_sub(earlier).as_secs_f64().max(0.001)
}

fn figures(metrics: &Metrics<'_>) -> ProcessFigures {
    ProcessFigures {
        clients: metrics.sum("watchfire_channels_clients"),
        channels: metrics.sum("watchfire_channels_joined"),
        topics: metrics.sum("watchfire_hub_topics"),
        connections: metrics.sum("watchfire_sockets_connections"),
        queued_bytes: metrics.sum("watchfire_sockets_queued_bytes"),
        resident_bytes: metrics.sum("process_resident_memory_bytes"),
        open_fds: metrics.sum("process_open_fds"),
        max_fds: metrics.sum("process_max_fds"),
        started_at: metrics.sum("process_start_time_seconds"),
        cpu: 0.0,
        busy: Vec::new(),
    }
}

/// Merges a value of one process into that of all.
fn merge(all: &mut f64, one: Option<f64>, reduce: fn(f64, f64) -> f64) {
    if let Some(one) = one {
        *all = if all.is_nan() { one } else { reduce(*all, one) };
    }
}

/// The growth of a counter. A smaller value is that of a process which was started again.
fn grown(last: f64, now: f64) -> f64 {
    if now >= last { now - last } else { now }
}

/// The buckets of a histogram: the upper bound and the count up to it, in order.
fn buckets(metrics: &Metrics<'_>, metric: &str) -> Vec<(f64, f64)> {
    let bound = |labels: &str| {
        let (_, rest) = labels.split_once("le=\"")?;
        let (bound, _) = rest.split_once('"')?;
        bound.parse::<f64>().ok()
    };
    let name = format!("{metric}_bucket");
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for (labels, count) in metrics.of(&name) {
        let Some(bound) = bound(labels) else { continue };
        match buckets.iter_mut().find(|(other, _)| *other == bound) {
            Some((_, sum)) => *sum += count,
            None => buckets.push((bound, count)),
        }
    }
    buckets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    buckets
}

/// Adds the growth of each bucket.
fn add_growth(all: &mut Vec<(f64, f64)>, last: &[(f64, f64)], now: &[(f64, f64)]) {
    for (index, (bound, count)) in now.iter().enumerate() {
        let before = last.get(index).map_or(0.0, |(_, count)| *count);
        let growth = grown(before, *count);
        match all.get_mut(index) {
            Some((_, sum)) => *sum += growth,
            None => all.push((*bound, growth)),
        }
    }
}

/// A quantile of the values in buckets whose counts include those of the lower ones, interpolated within
/// its bucket. `None`: there are no values.
fn quantile(buckets: &[(f64, f64)], q: f64) -> Option<f64> {
    let (_, total) = *buckets.last().filter(|(_, total)| *total > 0.0)?;
    let wanted = total * q;
    let position = buckets.iter().position(|(_, count)| *count >= wanted)?;
    let (low, below) = match position.checked_sub(1) {
        Some(previous) => buckets[previous],
        None => (0.0, 0.0),
    };
    let (high, up_to) = buckets[position];
    if high.is_infinite() {
        return Some(low);
    }
    let inside = (up_to - below).max(f64::MIN_POSITIVE);
    Some(low + (high - low) * ((wanted - below) / inside))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::record::position;

    fn text(joins: u32, fast: u32, all: u32) -> String {
        format!(
            "# TYPE watchfire_channels_clients gauge\n\
             watchfire_channels_clients{{transport=\"websocket\"}} 7\n\
             watchfire_channels_clients{{transport=\"longpoll\"}} 2\n\
             watchfire_sockets_queued_bytes_max 50\n\
             watchfire_channels_joins_total{{outcome=\"accepted\"}} {joins}\n\
             watchfire_channels_joins_total{{outcome=\"refused\"}} 1\n\
             watchfire_sockets_shard_busy_seconds_total{{process=\"0\",shard=\"0\"}} {joins}\n\
             watchfire_channels_join_seconds_bucket{{le=\"0.001\"}} {fast}\n\
             watchfire_channels_join_seconds_bucket{{le=\"0.01\"}} {all}\n\
             watchfire_channels_join_seconds_bucket{{le=\"+Inf\"}} {all}\n# EOF\n"
        )
    }

    /// The row of a sample, two seconds after the last one.
    fn sample(sampler: &mut Sampler, texts: &[(NodeId, String)]) -> Row {
        let last = sampler.earlier.values().map(|earlier| earlier.at).max();
        let now = last.unwrap_or_default() + Duration::from_secs(2);
        sampler.sample(5_000, now, texts, &SystemFigures::default()).row
    }

    fn value(row: &Row, column: &str) -> Option<f64> {
        row.get(position(column).expect("a column"))
    }

    #[test]
    fn gauges_are_summed_and_counters_become_rates() {
        let mut sampler = Sampler::default();
        let one = |joins, fast, all| vec![(NodeId(0), text(joins, fast, all))];
        let row = sample(&mut sampler, &one(10, 0, 0));
        assert_eq!(value(&row, "clients_websocket"), Some(7.0));
        assert_eq!(value(&row, "clients_longpoll"), Some(2.0));
        assert_eq!(value(&row, "joins"), None, "a rate needs two samples");
        assert_eq!(value(&row, "nats_connected"), None, "the server has no such metric");

        let row = sample(&mut sampler, &one(14, 0, 100));
        assert_eq!(value(&row, "joins"), Some(2.0));
        assert_eq!(value(&row, "joins_refused"), Some(0.0));
        assert_eq!(value(&row, "busy_max"), Some(1.0), "never more than all of the time");
        let p50 = value(&row, "join_p50").unwrap();
        assert!((0.005..0.006).contains(&p50), "{p50}");
        let row = sample(&mut sampler, &one(14, 0, 100));
        assert_eq!(value(&row, "join_p50"), None, "no join in this time");
    }

    #[test]
    fn processes_are_added_up_and_one_that_restarts_loses_nothing() {
        let mut sampler = Sampler::default();
        let both =
            |first, second| vec![(NodeId(0), text(first, 0, 0)), (NodeId(1), text(second, 0, 0))];
        sample(&mut sampler, &both(100, 100));
        let row = sample(&mut sampler, &both(110, 6));
        assert_eq!(value(&row, "clients_websocket"), Some(14.0));
        assert_eq!(value(&row, "queued_bytes_max"), Some(50.0), "the largest, not the sum");
        // Ten in the first process and six in the second, which was started again, in two seconds.
        assert_eq!(value(&row, "joins"), Some(8.0 + 0.5));
    }

    #[test]
    fn the_rate_of_a_process_that_was_silent_is_that_of_the_whole_time() {
        let mut sampler = Sampler::default();
        let both = |second| vec![(NodeId(0), text(0, 0, 0)), (NodeId(1), text(second, 0, 0))];
        sample(&mut sampler, &both(100));
        sample(&mut sampler, &both(100)[..1]);
        assert_eq!(value(&sample(&mut sampler, &both(108)), "joins"), Some(2.0));
        sampler.retain(|node| node == NodeId(0));
        assert_eq!(value(&sample(&mut sampler, &both(200)), "joins"), Some(0.0), "it is new");
    }

    #[test]
    fn a_minute_has_means_and_the_largest_quantile() {
        let row = |joins: f32, p99: f32| {
            let mut values = vec![f32::NAN; COLUMNS.len()];
            values[position("joins").unwrap()] = joins;
            values[position("join_p99").unwrap()] = p99;
            Row { time_ms: 1, values }
        };
        let minute = Row::mean(60_000, &[row(2.0, 0.5), row(4.0, f32::NAN), row(f32::NAN, 0.25)]);
        assert_eq!(value(&minute, "joins"), Some(3.0));
        assert_eq!(value(&minute, "join_p99"), Some(0.5));
        assert_eq!(value(&minute, "cpu"), None);
    }

    #[test]
    fn a_quantile_above_the_last_bound_is_that_bound() {
        let buckets = [(0.1, 1.0), (1.0, 1.0), (f64::INFINITY, 100.0)];
        assert_eq!(quantile(&buckets, 0.5), Some(1.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[(0.1, 0.0)], 0.5), None);
    }
}
