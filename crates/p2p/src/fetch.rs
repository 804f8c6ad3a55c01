//! Fetches: a DAG is traversed from its root. Blocks that are in a store are read from there, and
//! all others are requested from peers.

mod frontier;
mod handle;
mod worker;

pub use frontier::DagError;
pub(crate) use frontier::FetchScope;
pub(crate) use handle::FetchId;
pub use handle::{Fetch, FetchError, Fetched, Progress};
pub(crate) use worker::{FetchEvent, FetchInput, FetchWorker};
