//! Merges the metrics of several processes: each series becomes the sum of theirs, or the largest or
//! the smallest of their values.

use std::collections::{BTreeMap, HashMap};

/// Merges the metrics of several processes. Nearly every metric counts something, so the sum is the
/// value for the whole server.
pub(super) fn merge(texts: &[String]) -> String {
    let mut merged = Merged::default();
    for text in texts {
        merged.add(text);
    }
    merged.write()
}

/// The value of a series, from those of two processes.
fn merge_values(name: &str, one: f64, other: f64) -> f64 {
    match name {
        // The server has run since its oldest process started.
        "process_start_time_seconds" => one.min(other),
        // Not `process_max_fds`: each process has its own limit.
        _ if name.ends_with("_bytes_max") || name.ends_with("_info") => one.max(other),
        _ => one + other,
    }
}

#[derive(Default)]
struct Merged<'a> {
    /// In the order of their first appearance.
    families: Vec<Family<'a>>,
    by_name: HashMap<&'a str, usize>,
}

#[derive(Default)]
struct Family<'a> {
    comments: Vec<&'a str>,
    series: BTreeMap<&'a str, f64>,
}

impl<'a> Merged<'a> {
    fn add(&mut self, text: &'a str) {
        let mut family = None;
        let mut name_of_family = "";
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let Some(name) = comment.split(' ').nth(1) else { continue };
                let of_name = self.family(name);
                if !self.families[of_name].comments.contains(&line) {
                    self.families[of_name].comments.push(line);
                }
                family = Some(of_name);
                name_of_family = name;
            } else if let Some((series, value)) = line.rsplit_once(' ')
                && let (Some(family), Ok(value)) = (family, value.parse::<f64>())
            {
                self.families[family]
                    .series
                    .entry(series)
                    .and_modify(|merged| *merged = merge_values(name_of_family, *merged, value))
                    .or_insert(value);
            }
        }
    }

    fn family(&mut self, name: &'a str) -> usize {
        *self.by_name.entry(name).or_insert_with(|| {
            self.families.push(Family::default());
            self.families.len() - 1
        })
    }

    fn write(&self) -> String {
        let mut text = String::new();
        for Family { comments, series } in &self.families {
            for comment in comments {
                text.push_str(comment);
                text.push('\n');
            }
            for (series, value) in series {
                text.push_str(&format!("{series} {value}\n"));
            }
        }
        text.push_str("# EOF\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_series_are_summed_and_other_series_are_kept() {
        let first = "# HELP a Things.\n# TYPE a counter\na_total 2\n# HELP r Refusals.\n\
                     # TYPE r counter\nr_total{reason=\"x y\"} 1\n# EOF\n";
        let second = "# HELP a Things.\n# TYPE a counter\na_total 3\n# HELP r Refusals.\n\
                      # TYPE r counter\nr_total{reason=\"z\"} 5\n# EOF\n";
        let merged = merge(&[first.to_owned(), second.to_owned()]);
        assert_eq!(
            merged,
            "# HELP a Things.\n# TYPE a counter\na_total 5\n# HELP r Refusals.\n\
             # TYPE r counter\nr_total{reason=\"x y\"} 1\nr_total{reason=\"z\"} 5\n# EOF\n"
        );
    }

    #[test]
    fn a_start_a_maximum_and_a_description_are_not_summed() {
        let text = |value: u32| {
            ["process_start_time_seconds", "queued_bytes_max", "build_info"]
                .map(|name| format!("# TYPE {name} gauge\n{name} {value}\n"))
                .concat()
        };
        let merged = merge(&[text(5), text(9), text(7)]);
        let values: Vec<_> = merged
            .lines()
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u32>().ok())
            .collect();
        assert_eq!(values, [5, 9, 9], "{merged}");
    }
}
