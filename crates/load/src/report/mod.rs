//! The results of a load: as text, JSON and HTML, and live while it runs.

mod html;
mod json;
mod live;
mod table;

pub use html::html;
pub use json::json;
pub use live::{Live, line};
pub use table::table;
