//! The promises of this crate, through its public API: a file for each topic, one program for all.

mod answers;
mod examples;
mod http_answers;
mod reports;
mod secure;
mod sessions;
mod stall;
mod support;
mod tsung;
mod users;
mod watchfire;
