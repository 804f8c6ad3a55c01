//! The promises of this crate, through its public API: a file for each topic, one program for all.

mod examples;
mod reports;
mod stall;
mod support;
mod users;
mod watchfire;
