//! The results of a load: as text, JSON, CSV and HTML, and live while it runs.

mod charts;
mod csv;
mod html;
mod intervals;
mod json;
mod live;
mod series;
mod table;

pub use csv::csv;
pub use html::html;
pub use json::json;
pub use live::{Live, line, status};
pub use table::table;
