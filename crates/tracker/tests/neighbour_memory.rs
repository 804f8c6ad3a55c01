//! Memory per peer on the rings.

#![allow(unsafe_code, reason = "counting allocations needs an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use watchfire_tracker::Rings;
use watchfire_types::PeerId;

thread_local! {
    /// Bytes that this thread allocated and has not freed.
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: isize) {
    ALLOCATED.set(ALLOCATED.get() + bytes);
}

// SAFETY: every call is passed to `System` with the caller's own arguments, so its guarantees hold
// here. Counting uses only a `Cell` in a thread-local that is initialised at compile time and has
// no destructor, so it neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller fulfils the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller fulfils the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[test]
fn a_peer_among_many_takes_sixteen_bytes_per_ring() {
    const PEERS: u64 = 100_000;
    const REPLACED: u64 = PEERS / 4;
    for k in [2, 3] {
        let before = ALLOCATED.get();
        let mut rings = Rings::new(k, 7);
        (0..PEERS).for_each(|peer| drop(rings.join(PeerId(peer))));
        let grown = (ALLOCATED.get() - before) as f64 / PEERS as f64;
        for peer in 0..REPLACED {
            rings.leave(PeerId(peer));
            rings.join(PeerId(PEERS + peer));
        }
        let churned = (ALLOCATED.get() - before) as f64 / PEERS as f64;
        println!("{k} rings: {grown:.1} bytes a peer, {churned:.1} after churn");
        assert!(grown <= 16.0 * k as f64, "{k} rings: {grown} bytes a peer");
        assert!(churned <= 17.0 * k as f64, "{k} rings: {churned} bytes a peer after churn");

        (REPLACED..PEERS + REPLACED).for_each(|peer| drop(rings.leave(PeerId(peer))));
        assert!(rings.is_empty());
        let left = ALLOCATED.get() - before;
        assert!(left <= 1_024, "{left} bytes are not freed by {k} rings without peers");
    }
}
