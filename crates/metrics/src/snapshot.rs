//! The metrics of a process at one moment, as typed values.
//!
//! A process gives its snapshot to others in postcard. They merge several, read figures from them by name and
//! label, and write the text of `/metrics` from the result.

use serde::{Deserialize, Serialize};

/// The labels of a series, in the order of their writing.
pub type Labels = Vec<(String, String)>;

/// Metrics of one process, or of several that were merged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// In the order of their writing. Each name is there once.
    pub families: Vec<Family>,
}

/// A metric, with a series for each combination of its labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Family {
    /// With its prefix, and without the suffix of a counter.
    pub name: String,
    pub help: String,
    pub kind: Kind,
    pub merge: Merge,
    pub series: Vec<(Labels, Value)>,
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The value of a series for several processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Merge {
    /// Nearly every metric counts something.
    Sum,
    Largest,
    Smallest,
}

/// The value of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    Count(u64),
    Number(f64),
    Histogram(Buckets),
}

/// The values of a histogram by their size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buckets {
    /// The upper bound of each bucket, in rising order; the last one is infinite. With it the values in the
    /// bucket, without those of smaller buckets.
    pub counts: Vec<(f64, u64)>,
    /// The sum of all values.
    pub sum: f64,
}

impl Snapshot {
    /// Adds the metrics of another process.
    pub fn merge(&mut self, other: Snapshot) {
        for family in other.families {
            match self.families.iter_mut().find(|own| own.name == family.name) {
                Some(own) => own.merge(family),
                None => self.families.push(family),
            }
        }
    }

    /// The series of a metric; none if there is no such metric.
    pub fn series(&self, name: &str) -> &[(Labels, Value)] {
        let family = self.families.iter().find(|family| family.name == name);
        family.map_or(&[], |family| &family.series)
    }
}

impl Family {
    fn merge(&mut self, other: Family) {
        for (labels, value) in other.series {
            match self.series.iter_mut().find(|(own, _)| *own == labels) {
                Some((_, own)) => own.merge(value, self.merge),
                None => self.series.push((labels, value)),
            }
        }
    }
}

impl Value {
    fn merge(&mut self, other: Value, merge: Merge) {
        match (&mut *self, &other) {
            (Value::Count(own), Value::Count(other)) => {
                *own = match merge {
                    Merge::Sum => own.saturating_add(*other),
                    Merge::Largest => (*own).max(*other),
                    Merge::Smallest => (*own).min(*other),
                }
            }
            (Value::Histogram(own), Value::Histogram(other)) => own.add(other),
            _ => {
                let (Some(own), Some(other)) = (self.number(), other.number()) else { return };
                *self = Value::Number(match merge {
                    Merge::Sum => own + other,
                    Merge::Largest => own.max(other),
                    Merge::Smallest => own.min(other),
                });
            }
        }
    }

    /// The number of a counter or a gauge.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Count(count) => Some(*count as f64),
            Value::Number(number) => Some(*number),
            Value::Histogram(_) => None,
        }
    }
}

impl Buckets {
    /// Adds the values of a histogram of the same program, which has the same bounds.
    pub fn add(&mut self, other: &Buckets) {
        for ((_, own), (_, other)) in self.counts.iter_mut().zip(&other.counts) {
            *own += other;
        }
        self.sum += other.sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(name: &str, merge: Merge, series: &[(&[(&str, &str)], Value)]) -> Family {
        let owned = |labels: &[(&str, &str)]| {
            labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let series = series.iter().map(|(labels, value)| (owned(labels), value.clone())).collect();
        let (name, help) = (name.to_owned(), "Things".to_owned());
        Family { name, help, kind: Kind::Counter, merge, series }
    }

    fn merged(snapshots: impl IntoIterator<Item = Vec<Family>>) -> Snapshot {
        snapshots.into_iter().fold(Snapshot::default(), |mut merged, families| {
            merged.merge(Snapshot { families });
            merged
        })
    }

    #[test]
    fn equal_series_are_summed_and_other_series_are_kept() {
        let snapshot = |count, reason, refusals| {
            vec![
                family("a", Merge::Sum, &[(&[], Value::Count(count))]),
                family("r", Merge::Sum, &[(&[("reason", reason)], Value::Count(refusals))]),
            ]
        };
        assert_eq!(
            merged([snapshot(2, "x y", 1), snapshot(3, "z", 5)]).families,
            [
                family("a", Merge::Sum, &[(&[], Value::Count(5))]),
                family(
                    "r",
                    Merge::Sum,
                    &[
                        (&[("reason", "x y")], Value::Count(1)),
                        (&[("reason", "z")], Value::Count(5)),
                    ],
                ),
            ]
        );
    }

    #[test]
    fn a_start_a_maximum_and_a_description_are_not_summed() {
        let snapshot = |value: Value| {
            let one = |name, merge| family(name, merge, &[(&[], value.clone())]);
            vec![one("start", Merge::Smallest), one("max", Merge::Largest)]
        };
        let value = |snapshot: &Snapshot, name| snapshot.series(name)[0].1.clone();
        let counts = merged([5, 9, 7].map(|count| snapshot(Value::Count(count))));
        assert_eq!(value(&counts, "start"), Value::Count(5));
        assert_eq!(value(&counts, "max"), Value::Count(9));
        let numbers = merged([0.5, 0.25].map(|number| snapshot(Value::Number(number))));
        assert_eq!(value(&numbers, "start"), Value::Number(0.25));
        assert_eq!(value(&numbers, "max"), Value::Number(0.5));
    }

    #[test]
    fn histograms_are_added_bucket_by_bucket() {
        let snapshot = |small, large, sum| {
            let counts = vec![(0.5, small), (f64::INFINITY, large)];
            let value = Value::Histogram(Buckets { counts, sum });
            vec![family("h", Merge::Sum, &[(&[], value)])]
        };
        assert_eq!(
            merged([snapshot(1, 2, 4.0), snapshot(10, 0, 3.5)]).families,
            snapshot(11, 2, 7.5)
        );
    }
}
