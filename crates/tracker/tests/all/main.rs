//! The promises of this crate, through its public API: a file for each topic, one program for all.

mod neighbour_replicas;
mod neighbours;
mod page_life;
mod page_replicas;
mod relaying;
mod reservations;
mod signalling;

use std::time::Duration;

use watchfire_tracker::Counts;
use watchfire_types::{Instant, PeerId};

const PAGE: &str = "bafypage";
const ALICE: PeerId = PeerId(1);
const BOB: PeerId = PeerId(2);
const CAROL: PeerId = PeerId(3);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn counts(watching: usize, holders: usize, partial: usize) -> Counts {
    Counts { watching, holders, partial, ..Counts::default() }
}
