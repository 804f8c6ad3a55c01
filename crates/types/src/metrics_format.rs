use std::collections::BTreeMap;

/// A text format of metrics, as a request asks for it with `Accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// The format that a client gets that prefers no other.
    OpenMetrics,
    /// That of Prometheus, 0.0.4. Its readers take the names of OpenMetrics for metrics without a type.
    Prometheus,
}

impl MetricsFormat {
    /// The format that a request prefers, from the values of its `Accept` headers (RFC 9110, 12.5.1).
    pub fn preferred<'a>(accept: impl Iterator<Item = &'a str>) -> Self {
        let (mut open, mut prometheus) = (0.0, 0.0);
        for range in accept.flat_map(|value| value.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let wanted: &mut f32 = match parts.next().unwrap_or_default() {
                "application/openmetrics-text" => &mut open,
                "text/plain" => &mut prometheus,
                _ => continue,
            };
            let quality = parts.find_map(|part| part.strip_prefix("q="));
            *wanted = wanted.max(quality.map_or(1.0, |quality| quality.parse().unwrap_or(0.0)));
        }
        if prometheus > open { MetricsFormat::Prometheus } else { MetricsFormat::OpenMetrics }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Writes metrics in this format, from OpenMetrics. There a counter `a` has the series `a_total`. Here
    /// both have one name, and an info is a gauge.
    pub fn write(self, openmetrics: String) -> String {
        if self == Self::OpenMetrics {
            return openmetrics;
        }
        let types =
            openmetrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let suffixes: BTreeMap<&str, &str> = types
            .filter_map(|(name, kind)| match kind {
                "counter" => Some((name, "_total")),
                "info" => Some((name, "_info")),
                _ => None,
            })
            .collect();
        let mut text = String::with_capacity(openmetrics.len());
        for line in openmetrics.lines().filter(|line| *line != "# EOF") {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", word @ ("HELP" | "TYPE"), name, rest] => {
                    let suffix = suffixes.get(name).copied().unwrap_or_default();
                    let rest = if (word, rest) == ("TYPE", "info") { "gauge" } else { rest };
                    text += &format!("# {word} {name}{suffix} {rest}\n");
                }
                _ => text += &format!("{line}\n"),
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_the_format_that_it_prefers() {
        let preferred = |accept: &str| MetricsFormat::preferred([accept].into_iter());
        for accept in [
            "*/*",
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            "application/openmetrics-text, text/plain",
            "text/plain;q=0",
        ] {
            assert_eq!(preferred(accept), MetricsFormat::OpenMetrics, "{accept}");
        }
        for accept in [
            "text/plain;version=0.0.4",
            "text/plain; version=0.0.4; q=0.6, application/openmetrics-text; q=0.5",
            "text/plain;version=0.0.4;q=1,*/*;q=0.1",
        ] {
            assert_eq!(preferred(accept), MetricsFormat::Prometheus, "{accept}");
        }
        assert_eq!(MetricsFormat::preferred([].into_iter()), MetricsFormat::OpenMetrics);
    }

    #[test]
    fn the_format_of_prometheus_has_one_name_for_a_counter_and_its_series() {
        let openmetrics = "# HELP a Things of a\n# TYPE a counter\na_total{x=\"# EOF\"} 2\n\
             # HELP g Things\n# TYPE g gauge\ng 3\n# HELP i Info\n# TYPE i info\ni_info{n=\"v\"} 1\n# EOF\n";
        assert_eq!(
            MetricsFormat::Prometheus.write(openmetrics.into()),
            "# HELP a_total Things of a\n# TYPE a_total counter\na_total{x=\"# EOF\"} 2\n\
             # HELP g Things\n# TYPE g gauge\ng 3\n# HELP i_info Info\n# TYPE i_info gauge\ni_info{n=\"v\"} 1\n"
        );
        assert_eq!(MetricsFormat::OpenMetrics.write(openmetrics.into()), openmetrics);
    }
}
