//! Peers of pages: they join, have all blocks, and the counts go to the others.

use std::any::Any;
use std::hint::black_box;

use watchfire_tracker::{Have, PageLimits, Pages};
use watchfire_types::{Instant, PeerId};

const PEERS_PER_PAGE: u64 = 10;

/// A round is a peer that joins a page of [`PEERS_PER_PAGE`], and becomes a holder. All stay.
pub fn join(rounds: u32) -> Box<dyn Any> {
    let mut pages: Pages<u32> = Pages::new(PageLimits::default());
    for number in 0..u64::from(rounds) {
        let now = Instant::from_nanos(number * 10_000_000);
        let (page, peer) = (format!("page:{}", number / PEERS_PER_PAGE), PeerId(number));
        let address = number as u32;
        pages.join(now, &page, peer, address, Have::Nothing).expect("there is room");
        pages.progress(now, &page, peer, Have::All);
        if pages.next_wake().is_some_and(|at| at <= now) {
            pages.handle_tick(now);
        }
        while let Some(output) = pages.poll_output() {
            black_box(output);
        }
    }
    Box::new(pages)
}
