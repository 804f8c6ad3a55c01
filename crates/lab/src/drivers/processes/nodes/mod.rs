//! The nodes of a run: how they start, and what each does when.

mod start;
mod trial_node;

pub use start::{choose_dials, places, prepare_fetchers, start_seeders, start_servers};
pub use trial_node::{TrialNode, advance};
