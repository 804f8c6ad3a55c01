//! The text of `/metrics`, in the format OpenMetrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use watchfire_metrics::{Kind, Snapshot, Value};

pub(super) fn text(snapshot: Snapshot) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Exposition(snapshot)));
    let mut text = String::new();
    encode(&mut text, &registry).expect("writing into a String cannot fail");
    text
}

#[derive(Debug)]
struct Exposition(Snapshot);

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.0.families {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(&family.name, &family.help, None, kind)?;
            for (labels, value) in &family.series {
                let mut series = metric.encode_family(labels)?;
                match (value, family.kind) {
                    (Value::Count(count), Kind::Counter) => {
                        series.encode_counter::<NoLabelSet, _, u64>(count, None)?;
                    }
                    (Value::Number(number), Kind::Counter) => {
                        series.encode_counter::<NoLabelSet, _, f64>(number, None)?;
                    }
                    (Value::Count(count), _) => series.encode_gauge(count)?,
                    (Value::Number(number), _) => series.encode_gauge(number)?,
                    (Value::Histogram(buckets), _) => {
                        let count = buckets.counts.iter().map(|(_, count)| count).sum();
                        series.encode_histogram::<NoLabelSet>(
                            buckets.sum,
                            count,
                            &buckets.counts,
                            None,
                        )?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use watchfire_metrics::{Buckets, Family, Merge};

    use super::*;

    #[test]
    fn each_kind_of_metric_has_its_lines() {
        let family = |name: &str, kind, labels: &[(&str, &str)], value| {
            let labels = labels.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            let series = vec![(labels.collect(), value)];
            Family { name: name.into(), help: "Things".into(), kind, merge: Merge::Sum, series }
        };
        let counts = vec![(0.0001, 1), (2.0, 2), (f64::INFINITY, 4)];
        let histogram = Value::Histogram(Buckets { counts, sum: 1.5 });
        let families = vec![
            family("a", Kind::Counter, &[], Value::Count(2)),
            family("s", Kind::Counter, &[("shard", "0")], Value::Number(2.0)),
            family("g", Kind::Gauge, &[("state", "x \"y\"")], Value::Count(3)),
            family("n", Kind::Gauge, &[], Value::Number(0.5)),
            family("h", Kind::Histogram, &[("hook", "join")], histogram),
            Family { series: Vec::new(), ..family("e", Kind::Counter, &[], Value::Count(0)) },
        ];
        assert_eq!(
            text(Snapshot { families }),
            "# HELP a Things\n# TYPE a counter\na_total 2\n\
             # HELP s Things\n# TYPE s counter\ns_total{shard=\"0\"} 2.0\n\
             # HELP g Things\n# TYPE g gauge\ng{state=\"x \\\"y\\\"\"} 3\n\
             # HELP n Things\n# TYPE n gauge\nn 0.5\n\
             # HELP h Things\n# TYPE h histogram\n\
             h_sum{hook=\"join\"} 1.5\nh_count{hook=\"join\"} 7\n\
             h_bucket{le=\"0.0001\",hook=\"join\"} 1\nh_bucket{le=\"2.0\",hook=\"join\"} 3\n\
             h_bucket{le=\"+Inf\",hook=\"join\"} 7\n\
             # HELP e Things\n# TYPE e counter\n# EOF\n"
        );
    }
}
