//! Exchanges that talk to one another.

mod net;
mod swarms;
mod two;
