//! Exchanges that talk to one another.

mod bad_peers;
mod net;
mod swarms;
mod two;
