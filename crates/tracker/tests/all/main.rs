//! The promises of this crate, through its public API: a file for each topic, one program for all.

mod neighbour_replicas;
mod neighbours;
mod page_life;
mod page_replicas;
mod relaying;
mod reservations;
mod signalling;
