//! The output of the measuring tools: units, histograms, tables, charts and HTML.
//!
//! `load`, `lab` and `cli` share this crate, so that a duration, a table or a chart looks
//! the same wherever it appears. Charts are SVG and follow the reader's light or dark setting.
//!
//! The parser of scenario files ([`scenario`]) is here too, because a scenario uses the same
//! notation as a report, such as `300 MiB`. It is not in the crate `types`, because every core
//! imports that crate, and it must have few dependencies.
//!
//! Nothing here measures, waits, or knows a protocol.
//!
//! ```
//! use watchfire_report::{Axis, Chart, Colour, Line, Panel, Table, units};
//!
//! let line = Line::left("sockets", Colour::Blue, vec![(0.0, 0.0), (1.0, 1_200.0)]); let panel =
//! Panel::lines("Open sockets", Axis::new("seconds"), Axis::new("sockets"), vec![line]); let chart
//! = Chart { label: "Open sockets".into(), panels: vec![panel], notes: Vec::new() };
//! assert!(chart.svg().ends_with("</svg>\n"));
//!
//! let mut table = Table::new(["step", "p99"]);
//! table.push(["join".to_owned(), units::duration(std::time::Duration::from_micros(1_234))]);
//! assert!(table.markdown().contains("| join | 1.23 ms |"));
//! ```

mod chart;
mod histogram;
mod html;
pub mod scenario;
mod table;
pub mod units;

pub use chart::{
    Axis, Bar, BarLimit, Cell, Cells, Chart, Colour, Line, Marker, Panel, Side, TickFormat,
};
pub use histogram::{Histogram, Snapshot};
pub use html::{charts, escape, page};
pub use table::Table;
