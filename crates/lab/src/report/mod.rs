//! What a load came to, for people and for programs.

mod chart;
mod html;
mod json;
mod live;
mod table;

pub use html::html;
pub use json::json;
pub use live::{Live, line};
pub use table::table;
