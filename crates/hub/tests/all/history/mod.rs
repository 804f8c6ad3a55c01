//! Histories: the log of one topic against a model, and the replication between processes.

mod model;
mod replication;
