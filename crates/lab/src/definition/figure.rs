//! The figures that a page shows and a target bounds. For each figure, less is better.

use serde::{Deserialize, Serialize};

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Seconds until an awaited node had its first content, the median.
    FirstByte,
    /// Seconds until half of the awaited nodes had all.
    CompletionMedian,
    /// Seconds until nine of ten awaited nodes had all.
    CompletionP90,
    /// Seconds until every awaited node had all.
    CompletionLast,
    /// The last completion, divided by the bound of the links.
    TimesTheBound,
    /// Copies of the objects that the seeders sent.
    SeederCopies,
    /// Content that was received more than once, relative to the content that was needed.
    Duplicates,
    /// Bytes that all nodes received, relative to the content that was needed.
    WireBytes,
    /// Messages that an awaited node received, on average.
    Messages,
    /// CPU-seconds of an awaited node, on average.
    LeecherCpu,
    /// CPU-seconds of all seeders.
    SeederCpu,
    /// The highest peak memory of an awaited node.
    PeakMemory,
}

/// Each figure, its name in experiment files, and its name and unit in tables.
const FIGURES: [(Figure, &str, &str); 12] = [
    (Figure::FirstByte, "first_byte", "first byte, median, s"),
    (Figure::CompletionMedian, "completion_median", "completion, median, s"),
    (Figure::CompletionP90, "completion_p90", "completion, p90, s"),
    (Figure::CompletionLast, "completion_last", "completion, last, s"),
    (Figure::TimesTheBound, "times_the_bound", "last, times the bound"),
    (Figure::SeederCopies, "seeder_copies", "copies from seeders"),
    (Figure::Duplicates, "duplicates", "duplicates, share"),
    (Figure::WireBytes, "wire_bytes", "bytes on the wire, times the content"),
    (Figure::Messages, "messages", "messages per leecher"),
    (Figure::LeecherCpu, "leecher_cpu", "CPU-seconds per leecher"),
    (Figure::SeederCpu, "seeder_cpu", "CPU-seconds of seeders"),
    (Figure::PeakMemory, "peak_memory", "peak memory of a leecher, bytes"),
];

impl Figure {
    pub const ALL: [Figure; 12] = {
        let mut all = [Figure::FirstByte; 12];
        let mut index = 0;
        while index < all.len() {
            all[index] = FIGURES[index].0;
            index += 1;
        }
        all
    };

    /// The name in experiment files.
    pub const fn name(self) -> &'static str {
        FIGURES[self as usize].1
    }

    /// The name and the unit in tables.
    pub const fn title(self) -> &'static str {
        FIGURES[self as usize].2
    }

    pub fn with_name(name: &str) -> Option<Figure> {
        Figure::ALL.into_iter().find(|figure| figure.name() == name)
    }
}
