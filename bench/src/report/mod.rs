//! What came out, for people and for programs.

mod page;
mod picture;
mod terminal;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::ser::SerializeMap;

pub use terminal::terminal;

use crate::machine::Machine;
use crate::marks::Mark;
use crate::measure::{Figure, Figures, Plan};
use crate::servers::Server;

/// Everything a run found out.
#[derive(Serialize)]
pub struct Report {
    pub machine: Machine,
    pub plan: Plan,
    pub rounds_done: usize,
    /// What programs that are not ours used of all cores meanwhile, 0 to 1.
    pub other_programs_share: f64,
    pub marks: Vec<Mark>,
    #[serde(serialize_with = "by_key")]
    pub medians: BTreeMap<Server, Figures>,
    #[serde(serialize_with = "by_key")]
    pub rounds: BTreeMap<Server, Vec<Figures>>,
    pub failures: Vec<String>,
}

impl Report {
    /// Whether everything was measured as often as it should be; only such a run is kept.
    fn is_whole(&self) -> bool {
        self.plan.is_whole() && self.failures.is_empty() && self.rounds_done == self.plan.rounds
    }

    /// Where the page and its picture go.
    fn pages(&self) -> &Path {
        if self.is_whole() { &self.plan.docs } else { &self.plan.out }
    }

    /// What was run, for people.
    fn rounds_sentence(&self) -> String {
        let (rounds, s) = (self.rounds_done, if self.rounds_done == 1 { "" } else { "s" });
        let share = self.other_programs_share * 100.0;
        format!(
            "medians over {rounds} round{s}; other programs used {share:.0} % of the cores meanwhile"
        )
    }
}

/// Write `marks.json`, the page and the picture.
pub fn write(report: &Report) -> Result<()> {
    let (plan, pages) = (&report.plan, report.pages());
    put(&plan.out, "marks.json", &(serde_json::to_string_pretty(report)? + "\n"))?;
    put(pages, "marks.svg", &picture::picture(report))?;
    put(pages, "marks.md", &page::page(report))
}

fn put(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, text))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn by_key<S: serde::Serializer, V: Serialize>(
    map: &BTreeMap<Server, V>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut by_key = serializer.serialize_map(Some(map.len()))?;
    for (server, value) in map {
        by_key.serialize_entry(&server.key(), value)?;
    }
    by_key.end()
}

/// A column of the table: its head and how its figure is written.
struct Column {
    head: &'static str,
    figure: Figure,
    decimals: usize,
}

const COLUMNS: [Column; 12] = [
    column("B idle", Figure::SocketBytes, 0),
    column("B after broadcasts", Figure::SocketBytesAfterBroadcasts, 0),
    column("B after reconnects", Figure::SocketBytesAfterReconnects, 0),
    column("setup us", Figure::SetupMicros, 1),
    column("delivery us", Figure::DeliveryMicros, 2),
    column("rare delivery us", Figure::RareDeliveryMicros, 2),
    column("heartbeat us", Figure::HeartbeatMicros, 1),
    column("last socket ms", Figure::LastSocketMillis, 0),
    column("poll B", Figure::PollBytes, 0),
    column("poll B after cycles", Figure::PollBytesAfterCycles, 0),
    column("poll setup us", Figure::PollSetupMicros, 1),
    column("poll cycle us", Figure::PollCycleMicros, 1),
];

const fn column(head: &'static str, figure: Figure, decimals: usize) -> Column {
    Column { head, figure, decimals }
}

impl Column {
    fn cell(&self, figures: &Figures) -> String {
        let value = figures.get(&self.figure);
        value.map_or_else(|| "-".into(), |value| number(*value, self.decimals))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(number(1_234_567.0, 0), "1,234,567");
        assert_eq!(number(-350.25, 1), "-350.2");
        assert_eq!(number(999.0, 0), "999");
    }
}
