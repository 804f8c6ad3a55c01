//! The figures of the last minutes, for charts.

use std::collections::VecDeque;

use watchfire_operator::answers::History;

/// Rows that are kept. The server keeps the same number.
const ROWS_MAX: usize = 900;
/// The seconds that a chart shows at least.
const SPAN_SECONDS: u64 = 300;

/// A chart: the sum of some columns of the history.
pub struct Chart {
    pub title: &'static str,
    pub unit: Unit,
    columns: &'static [&'static str],
    /// The top of the chart is at least this value.
    pub top_min: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    Rate,
    Bytes,
    ByteRate,
    Share,
    Cores,
    Seconds,
}

const COUNT: usize = 10;
/// The first of [`CHARTS`] are on the first screen, for which a small terminal has no more room.
pub const ON_HOME: usize = 8;

pub const CHARTS: [Chart; COUNT] = [
    Chart {
        title: "clients",
        unit: Unit::Count,
        columns: &["clients_websocket", "clients_longpoll", "clients_events"],
        top_min: 0.0,
    },
    Chart { title: "joins", unit: Unit::Rate, columns: &["joins"], top_min: 0.0 },
    Chart { title: "deliveries", unit: Unit::Rate, columns: &["deliveries"], top_min: 0.0 },
    Chart { title: "bytes out", unit: Unit::ByteRate, columns: &["sent_bytes"], top_min: 0.0 },
    Chart { title: "CPU", unit: Unit::Cores, columns: &["cpu"], top_min: 1.0 },
    Chart { title: "busiest loop", unit: Unit::Share, columns: &["busy_max"], top_min: 1.0 },
    Chart {
        title: "broadcast p99",
        unit: Unit::Seconds,
        columns: &["broadcast_p99"],
        top_min: 0.0,
    },
    Chart { title: "queued", unit: Unit::Bytes, columns: &["queued_bytes"], top_min: 0.0 },
    Chart { title: "page loads", unit: Unit::Rate, columns: &["page_loads"], top_min: 0.0 },
    Chart { title: "visitors", unit: Unit::Count, columns: &["page_visitors"], top_min: 0.0 },
];

/// The last rows of the history, in the order of time.
#[derive(Debug, Default)]
pub struct Charts(VecDeque<Row>);

#[derive(Debug)]
struct Row {
    time_ms: u64,
    /// The value of each of [`CHARTS`].
    values: [Option<f64>; COUNT],
}

impl Charts {
    /// Adds rows that are newer than those before.
    pub fn add(&mut self, history: &History) {
        let positions = CHARTS.map(|chart| {
            let position =
                |name: &&str| history.columns.iter().position(|column| column.as_str() == *name);
            chart.columns.iter().filter_map(position).collect::<Vec<_>>()
        });
        for row in &history.rows {
            let Some((Some(time_ms), values)) = row.split_first() else { continue };
            let time_ms = *time_ms as u64;
            if time_ms <= self.last_ms() {
                continue;
            }
            let values = std::array::from_fn(|chart| {
                let known = positions[chart].iter().filter_map(|at| *values.get(*at)?);
                known.filter(|value| value.is_finite()).reduce(|sum, value| sum + value)
            });
            if self.0.len() == ROWS_MAX {
                self.0.pop_front();
            }
            self.0.push_back(Row { time_ms, values });
        }
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The time of the last row; 0 without one.
    pub fn last_ms(&self) -> u64 {
        self.0.back().map_or(0, |row| row.time_ms)
    }

    /// The value of a chart in the last second.
    pub fn latest(&self, chart: usize) -> Option<f64> {
        self.0.back()?.values[chart]
    }

    /// The lowest and the highest value of a chart.
    pub fn extremes(&self, chart: usize) -> Option<(f64, f64)> {
        let known = self.0.iter().filter_map(|row| row.values[chart]);
        known
            .map(|value| (value, value))
            .reduce(|(low, high), (value, _)| (low.min(value), high.max(value)))
    }

    /// A chart with this number of points, the last one on the right. A point is the largest value of its seconds.
    pub fn points(&self, chart: usize, count: usize) -> Vec<Option<f64>> {
        let mut points = vec![None; count];
        let step_ms = 1_000 * SPAN_SECONDS.div_ceil(count.max(1) as u64);
        let last = self.last_ms() / step_ms;
        for row in &self.0 {
            let steps_ago = (last - row.time_ms / step_ms) as usize;
            let Some(at) = count.checked_sub(steps_ago.saturating_add(1)) else { continue };
            let point: &mut Option<f64> = &mut points[at];
            *point = match (*point, row.values[chart]) {
                (Some(one), Some(other)) => Some(one.max(other)),
                (one, other) => one.or(other),
            };
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(rows: &[(u64, f64)]) -> History {
        History {
            columns: ["joins", "clients_longpoll", "other", "clients_websocket"]
                .map(Into::into)
                .to_vec(),
            rows: rows
                .iter()
                .map(|(at, value)| vec![Some(*at as f64), None, Some(1.0), None, Some(*value)])
                .collect(),
        }
    }

    #[test]
    fn a_chart_is_the_sum_of_its_columns() {
        let mut charts = Charts::default();
        assert_eq!((charts.latest(0), charts.last_ms()), (None, 0));
        charts.add(&history(&[(1_000, 4.0), (2_000, 6.0), (2_000, 9.0), (1_500, 9.0)]));
        assert_eq!((charts.latest(0), charts.last_ms()), (Some(7.0), 2_000));
        assert_eq!(charts.latest(1), None, "a column without a value");
        assert_eq!(charts.latest(4), None, "no such column");
        charts.add(&History { columns: vec![], rows: vec![vec![], vec![None], vec![Some(3e3)]] });
        assert_eq!((charts.latest(0), charts.last_ms()), (None, 3_000));
    }

    #[test]
    fn a_point_is_the_largest_value_of_its_seconds_and_gaps_stay_empty() {
        let mut charts = Charts::default();
        charts.add(&history(&[(60_000, 1.0), (180_000, 4.0), (182_000, 2.0), (300_000, 6.0)]));
        // A point is 100 seconds.
        assert_eq!(charts.points(0, 3), [Some(5.0), None, Some(7.0)]);
        assert_eq!(charts.points(0, 5), [Some(2.0), None, Some(5.0), None, Some(7.0)]);
        assert_eq!(charts.points(0, 0), []);
    }

    #[test]
    fn the_oldest_rows_are_dropped() {
        let mut charts = Charts::default();
        let rows: Vec<(u64, f64)> = (1..=2_000).map(|second| (second * 1_000, 0.0)).collect();
        charts.add(&history(&rows));
        assert_eq!(charts.0.len(), ROWS_MAX);
        assert_eq!(charts.last_ms(), 2_000_000);
    }
}
