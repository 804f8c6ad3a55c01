//! What a story found out, for people and for programs.

mod chart;
mod page;
mod summary;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

pub use chart::{Axis, Bar, Chart, Line, Panel, Tint};
pub use summary::summary;

/// Everything one story found out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Account {
    pub story: String,
    /// What is shown, in a sentence.
    pub title: String,
    /// Whether it was run at full size; only such a one is kept in the repository.
    pub is_whole: bool,
    pub date: String,
    pub machine: String,
    pub command: String,
    pub seconds: u64,
    /// How it was done, a sentence each.
    pub method: Vec<String>,
    pub marks: Vec<Mark>,
    pub figures: Vec<Figure>,
    pub tables: Vec<Table>,
    pub chart: Chart,
}

/// A promise, and whether it was kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mark {
    pub what: String,
    pub value: f64,
    pub bound: f64,
    pub unit: String,
    pub decimals: usize,
    pub is_least: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    pub what: String,
    pub value: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    pub title: String,
    pub heads: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Mark {
    pub fn at_most(what: &str, value: f64, bound: f64, unit: &str, decimals: usize) -> Self {
        let (what, unit) = (what.to_owned(), unit.to_owned());
        Mark { what, value, bound, unit, decimals, is_least: false }
    }

    pub fn at_least(what: &str, value: f64, bound: f64, unit: &str, decimals: usize) -> Self {
        Mark { is_least: true, ..Mark::at_most(what, value, bound, unit, decimals) }
    }

    pub fn is_met(&self) -> bool {
        if self.is_least { self.value >= self.bound } else { self.value <= self.bound }
    }

    fn verdict(&self) -> &'static str {
        if self.is_met() { "met" } else { "MISSED" }
    }

    fn measured(&self) -> String {
        format!("{} {}", number(self.value, self.decimals), self.unit).trim_end().to_owned()
    }

    fn asked(&self) -> String {
        let than = if self.is_least { "at least" } else { "at most" };
        let bound = number(self.bound, self.decimals);
        format!("{than} {bound} {}", self.unit).trim_end().to_owned()
    }
}

impl Account {
    pub fn figure(&mut self, what: &str, value: String) {
        self.figures.push(Figure { what: what.to_owned(), value });
    }

    /// Write the figures for programs to `out`, the page and picture to `docs` when it is whole.
    pub fn write(&self, docs: &Path, out: &Path) -> Result<()> {
        put(out, &format!("{}.json", self.story), &(serde_json::to_string_pretty(self)? + "\n"))?;
        let pages = if self.is_whole { docs } else { out };
        put(pages, &format!("{}.svg", self.story), &self.chart.svg())?;
        put(pages, &format!("{}.md", self.story), &page::page(self))
    }

    pub fn read(out: &Path, story: &str) -> Option<Self> {
        let text = fs::read_to_string(out.join(format!("{story}.json"))).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The marks and figures for the terminal.
    pub fn terminal(&self) -> String {
        let mut text = format!("\n{}: {}\n", self.story, self.title);
        for mark in &self.marks {
            text += &format!(
                "  {:52} {:>16}  {:24} {}\n",
                mark.what,
                mark.measured(),
                mark.asked(),
                mark.verdict()
            );
        }
        for figure in &self.figures {
            text += &format!("  {:52} {}\n", figure.what, figure.value);
        }
        for table in &self.tables {
            text += &format!("  {}\n    {}\n", table.title, table.heads.join(" | "));
            for row in &table.rows {
                text += &format!("    {}\n", row.join(" | "));
            }
        }
        text
    }
}

pub fn put(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, text))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// A number as people write it: thousands apart.
pub fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{fraction}")
}

/// A duration in nanoseconds as people write it.
pub fn duration(nanos: u64) -> String {
    match nanos as f64 {
        nanos if nanos >= 1e10 => format!("{:.1} s", nanos / 1e9),
        nanos if nanos >= 1e9 => format!("{:.2} s", nanos / 1e9),
        nanos if nanos >= 1e7 => format!("{:.0} ms", nanos / 1e6),
        nanos if nanos >= 1e6 => format!("{:.1} ms", nanos / 1e6),
        nanos => format!("{:.0} us", nanos / 1e3),
    }
}

/// Bytes as people write them.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes.abs() >= 1e10 => format!("{:.1} GB", bytes / 1e9),
        bytes if bytes.abs() >= 1e9 => format!("{:.2} GB", bytes / 1e9),
        bytes if bytes.abs() >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{} B", number(bytes, 0)),
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => values[len / 2],
        len => f64::midpoint(values[len / 2 - 1], values[len / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_met_at_its_bound() {
        assert!(Mark::at_most("x", 6.0, 6.0, "us", 1).is_met());
        assert!(!Mark::at_least("x", 5.9, 6.0, "us", 1).is_met());
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert!((median(vec![4.0, 1.0, 3.0, 2.0]) - 2.5).abs() < 1e-9);
    }

    #[test]
    fn sizes_and_times_are_told_in_the_unit_that_fits() {
        assert_eq!(bytes(8_200_000_000.0), "8.20 GB");
        assert_eq!(bytes(487.0), "487 B");
        assert_eq!(duration(4_800_000_000), "4.80 s");
        assert_eq!(duration(12_300_000), "12 ms");
    }
}
