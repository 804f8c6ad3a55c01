//! The promises of this crate, through its public API: a folder for each topic, one program for all.

mod exchanging;
mod scenarios;
mod vectors;
