//! The promises of this crate, through its public API: a file for each topic, one program for all.

mod fan_out;
mod history;
mod presence;
mod reader;
mod replication;
