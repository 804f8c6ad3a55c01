//! Merges the metrics of several processes: each series becomes the sum of theirs.

use std::collections::{BTreeMap, HashMap};

/// Merges the metrics of several processes. Every metric counts something, so the sum is the value
/// for the whole server.
pub(super) fn merge(texts: &[String]) -> String {
    let mut merged = Merged::default();
    for text in texts {
        merged.add(text);
    }
    merged.write()
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
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                let Some(name) = comment.split(' ').nth(1) else { continue };
                let of_name = self.family(name);
                if !self.families[of_name].comments.contains(&line) {
                    self.families[of_name].comments.push(line);
                }
                family = Some(of_name);
            } else if let Some((series, value)) = line.rsplit_once(' ')
                && let (Some(family), Ok(value)) = (family, value.parse::<f64>())
            {
                *self.families[family].series.entry(series).or_default() += value;
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
}
