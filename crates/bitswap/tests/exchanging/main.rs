//! Exchanges that talk to one another.

mod bad_peers;
mod leaves;
mod net;
mod swarms;
mod two;
