//! Exchanges that are connected to each other.

mod bad_peers;
mod leaves;
mod net;
mod questions;
mod swarms;
mod two;
