//! The promises of this crate, through its public API: a file for each topic, one program for all.

mod frames;
mod lifecycle;
mod long_poll;
mod vectors;
