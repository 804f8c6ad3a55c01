//! Memory of histories.

#![allow(unsafe_code, reason = "counting allocations needs an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use watchfire_hub::history::{Bounds, Logs, Message};
use watchfire_types::Instant;

thread_local! {
    /// Bytes that this thread allocated and has not freed.
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes of an allocation, as the allocator of the C library rounds them.
fn rounded(layout: Layout) -> isize {
    (layout.size() + 8).next_multiple_of(16).max(32) as isize
}

fn count(bytes: isize) {
    ALLOCATED.set(ALLOCATED.get() + bytes);
}

// SAFETY: every call is passed to `System` with the caller's own arguments, so its guarantees hold
// here. Counting uses only a `Cell` in a thread-local that is initialised at compile time and has
// no destructor, so it neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(rounded(layout));
        // SAFETY: the caller fulfils the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-rounded(layout));
        // SAFETY: the caller fulfils the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

const BOUNDS: Bounds = Bounds { messages: 2_000, age: Duration::from_secs(60), bytes: 1 << 20 };

fn at(secs: u64) -> Instant {
    Instant::from_nanos(secs * 1_000_000_000)
}

fn publish(logs: &mut Logs, secs: u64, topic: &str) {
    let payload = format!("{:0200}", 7).into();
    logs.publish(at(secs), topic, BOUNDS, Message { event: "new_msg".into(), payload });
}

/// The memory that is counted for histories, and the memory that they take.
fn assert_counted(logs: &Logs, before: isize, what: &str) -> usize {
    let taken = (ALLOCATED.get() - before) as f64;
    let counted = logs.totals().memory_bytes;
    println!("{what}: {counted} counted, {taken} taken");
    assert!((taken * 0.9..taken * 1.1).contains(&(counted as f64)), "{what}");
    counted
}

#[test]
fn the_counted_memory_of_histories_is_what_they_take() {
    let before = ALLOCATED.get();
    let mut logs = Logs::new(7, usize::MAX);
    (0..1_000).for_each(|n| publish(&mut logs, 1, &format!("users:{n}")));
    let one_each = assert_counted(&logs, before, "a message in each of 1,000 topics");

    (0..100_000).for_each(|n| publish(&mut logs, 2, &format!("users:{}", n % 100)));
    assert_counted(&logs, before, "a burst");

    for tick in 0..200 {
        logs.handle_tick(at(100 + tick));
    }
    let after = assert_counted(&logs, before, "after their expiry");
    assert!(after < one_each, "{after} bytes");
}
