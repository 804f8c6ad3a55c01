//! Counts of the parts of a server, and their reports.
//!
//! A part counts for itself, with a [`Counter`] or with counters that differ by labels. It is a
//! [`MetricSource`], which writes its counts into a [`Snapshot`] when `/metrics` is requested. The
//! processes of a server send each other snapshots, and merge them.

mod counters;
mod queue;
mod snapshot;
mod writer;

pub use counters::{Counter, CountersBy, TIMES, Times, TimesBy};
pub use queue::{Pending, Queue};
pub use snapshot::{Buckets, Family, Kind, Labels, Merge, Snapshot, Value};
pub use writer::{MetricSource, MetricWriter, NANOS_PER_SECOND};
