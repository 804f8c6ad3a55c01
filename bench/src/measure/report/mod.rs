//! The results of `make bench`: as JSON, as a page with a picture, and for the terminal.

mod page;
mod picture;
mod terminal;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use serde::ser::SerializeMap;
use watchfire_report::units::number;

pub use terminal::terminal;

use super::figure::{Figure, Figures};
use super::plan::Plan;
use super::targets::Target;
use crate::report::put;
use crate::servers::Server;
use watchfire_lab::machine::Machine;

#[derive(Serialize)]
pub struct Report {
    pub commit: String,
    pub machine: Machine,
    pub plan: Plan,
    pub rounds_done: usize,
    /// The share of all cores that other programs used meanwhile, from 0 to 1.
    pub other_programs_share: f64,
    pub targets: Vec<Target>,
    #[serde(serialize_with = "by_key")]
    pub medians: BTreeMap<Server, Figures>,
    #[serde(serialize_with = "by_key")]
    pub rounds: BTreeMap<Server, Vec<Figures>>,
    pub failures: Vec<String>,
}

impl Report {
    /// Whether this is a full run without failures. Only such a run goes to `docs`.
    fn is_whole(&self) -> bool {
        self.plan.is_whole() && self.failures.is_empty() && self.rounds_done == self.plan.rounds
    }

    /// The folder of the page and its picture.
    fn pages(&self) -> &Path {
        if self.is_whole() { &self.plan.docs } else { &self.plan.out }
    }

    /// The number of rounds, and the share of the machine that other programs used.
    fn rounds_sentence(&self) -> String {
        let (rounds, s) = (self.rounds_done, if self.rounds_done == 1 { "" } else { "s" });
        let share = self.other_programs_share * 100.0;
        format!(
            "medians over {rounds} round{s}; other programs used {share:.0} % of the cores meanwhile"
        )
    }
}

/// Write `targets.json`, the page and the picture.
pub fn write(report: &Report) -> Result<()> {
    let (plan, pages) = (&report.plan, report.pages());
    put(&plan.out, "targets.json", &(serde_json::to_string_pretty(report)? + "\n"))?;
    put(pages, "targets.svg", &picture::picture(report).svg())?;
    put(pages, "targets.md", &page::page(report))
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

/// A column of the table: its heading, figure and decimals.
struct Column {
    head: &'static str,
    figure: Figure,
    decimals: usize,
}

const COLUMNS: [Column; 13] = [
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
    column("load before", Figure::LoadBefore, 1),
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
