//! The results of a benchmark: as JSON, as a page with a picture, and for the terminal.
//!
//! Every benchmark creates a [`BenchmarkReport`]; those in JavaScript write its JSON. `draw` writes
//! the page and the picture from the JSON, without measuring.

mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use watchfire_report::Chart;
use watchfire_report::units::number;

/// The stored reports to draw.
#[derive(clap::Args)]
pub struct Settings {
    /// Reports as JSON; the page and the picture go to the same folder.
    #[arg(required = true)]
    reports: Vec<PathBuf>,
}

/// Write the page and the picture of stored reports.
pub fn draw(settings: &Settings) -> Result<ExitCode> {
    for path in &settings.reports {
        let text = fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let report: BenchmarkReport = serde_json::from_str(&text)
            .with_context(|| format!("{} is not a benchmark report", path.display()))?;
        report.write_page(path.parent().unwrap_or(Path::new(".")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The results of one benchmark.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BenchmarkReport {
    /// The name of the benchmark, and of its files.
    pub benchmark: String,
    /// The name of its page without `.md`; `None` is the benchmark's name.
    #[serde(default)]
    pub page: Option<String>,
    /// The heading of its page.
    pub title: String,
    /// Whether it was run at full size. Only such a run is kept in `docs/`.
    pub is_whole: bool,
    /// The day of the run, in UTC.
    pub date: String,
    /// The commit that was measured.
    #[serde(default)]
    pub commit: String,
    /// The machine, and its load before the run.
    pub machine: String,
    /// The command that repeats the run.
    pub command: String,
    /// Duration of the run, in seconds.
    pub seconds: u64,
    /// Description of the method, one paragraph each.
    pub method: Vec<String>,
    /// Targets of the system.
    pub targets: Vec<Target>,
    /// Single results.
    pub figures: Vec<Figure>,
    /// Results in tables.
    pub tables: Vec<Table>,
    /// The picture of its page.
    pub chart: Chart,
}

/// A target: the measured value and its bound.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Target {
    /// Name of the measured quantity.
    pub what: String,
    /// The measured value.
    pub value: f64,
    /// The value to reach.
    pub bound: f64,
    /// The unit of both; empty for a count.
    pub unit: String,
    /// Decimals of both.
    pub decimals: usize,
    /// Whether the value should be at least the bound; otherwise it should be at most the bound.
    pub is_least: bool,
}

/// A single result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// Name of the measured quantity.
    pub what: String,
    /// The result with its unit.
    pub value: String,
}

/// A table of results with a heading of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    /// The heading.
    pub title: String,
    /// The heading of each column.
    pub heads: Vec<String>,
    /// The cells of each row.
    pub rows: Vec<Vec<String>>,
}

impl Target {
    pub fn at_most(what: &str, value: f64, bound: f64, unit: &str, decimals: usize) -> Self {
        let (what, unit) = (what.to_owned(), unit.to_owned());
        Target { what, value, bound, unit, decimals, is_least: false }
    }

    pub fn at_least(what: &str, value: f64, bound: f64, unit: &str, decimals: usize) -> Self {
        Target { is_least: true, ..Target::at_most(what, value, bound, unit, decimals) }
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

    fn wanted(&self) -> String {
        let than = if self.is_least { "at least" } else { "at most" };
        let bound = number(self.bound, self.decimals);
        format!("{than} {bound} {}", self.unit).trim_end().to_owned()
    }

    /// Name, measured value, target and verdict.
    fn cells(&self) -> [String; 4] {
        [self.what.clone(), self.measured(), self.wanted(), self.verdict().to_owned()]
    }
}

impl From<&Table> for watchfire_report::Table {
    fn from(table: &Table) -> Self {
        watchfire_report::Table { heads: table.heads.clone(), rows: table.rows.clone() }
    }
}

impl BenchmarkReport {
    pub fn figure(&mut self, what: &str, value: String) {
        self.figures.push(Figure { what: what.to_owned(), value });
    }

    /// Write the results as JSON to `out`. A whole run also goes to `docs`, with its page.
    pub fn write(&self, docs: &Path, out: &Path) -> Result<()> {
        let json = serde_json::to_string(self)? + "\n";
        let file = format!("{}.json", self.benchmark);
        put(out, &file, &json)?;
        let pages = if self.is_whole { docs } else { out };
        put(pages, &file, &json)?;
        self.write_page(pages)
    }

    /// Write the page and its picture.
    fn write_page(&self, folder: &Path) -> Result<()> {
        let name = self.page.as_ref().unwrap_or(&self.benchmark);
        put(folder, &format!("{}.svg", self.benchmark), &self.chart.svg())?;
        put(folder, &format!("{name}.md"), &page::page(self))
    }

    /// The results for the terminal.
    pub fn terminal(&self) -> String {
        let mut text = format!("\n{}: {}\n\n", self.benchmark, self.title);
        let mut targets = watchfire_report::Table::new(["target", "measured", "wanted", ""]);
        self.targets.iter().for_each(|target| targets.push(target.cells()));
        let mut figures = watchfire_report::Table::new(["figure", ""]);
        for figure in &self.figures {
            figures.push([figure.what.clone(), figure.value.clone()]);
        }
        text += &(targets.terminal() + "\n" + &figures.terminal());
        for table in &self.tables {
            text += &format!("\n{}\n", table.title);
            text += &watchfire_report::Table::from(table).terminal();
        }
        text
    }
}

/// Write a file, and create its folder if it is missing.
pub fn put(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, text))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_at_its_bound() {
        assert!(Target::at_most("x", 6.0, 6.0, "us", 1).is_met());
        assert!(!Target::at_least("x", 5.9, 6.0, "us", 1).is_met());
    }

    const STORED: &str = r#"{"benchmark":"crowd","page":"README","title":"One page","is_whole":true,
        "date":"2026-11-24","commit":"abc","machine":"2 cores","command":"make x","seconds":7,
        "method":["It is measured."],"figures":[{"what":"a","value":"1"}],"tables":[],
        "targets":[{"what":"t","value":1.0,"bound":2.0,"unit":"s","decimals":1,"is_least":false}],
        "chart":{"label":"l","panels":[],"notes":[]}}"#;

    #[test]
    fn a_stored_report_is_drawn_again() {
        let folder = std::env::temp_dir().join(format!("bench-draw-{}", std::process::id()));
        put(&folder, "crowd.json", STORED).unwrap();
        draw(&Settings { reports: vec![folder.join("crowd.json")] }).unwrap();
        let page = fs::read_to_string(folder.join("README.md")).unwrap();
        assert!(
            page.contains("at commit abc") && page.contains("| t | 1.0 s | at most 2.0 s | met |"),
            "{page}"
        );
        assert!(fs::read_to_string(folder.join("crowd.svg")).unwrap().ends_with("</svg>\n"));
        fs::remove_dir_all(folder).unwrap();
    }
}
