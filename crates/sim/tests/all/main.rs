//! The promises of this crate, through its public API: a file for each topic, one program for all.

mod equal_links;
mod examples;
mod faults;
mod fleet;
mod processor_limits;
mod rival_strategies;
mod slow_uplinks;
