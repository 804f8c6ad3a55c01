//! Memory of histories.

use std::time::Duration;

use watchfire_hub::history::{Bounds, Logs, Message};
use watchfire_testkit::{CountingAllocator, allocated};
use watchfire_types::Instant;

/// Bytes of an allocation, as the allocator of the C library rounds them.
fn rounded(size: usize) -> usize {
    (size + 8).next_multiple_of(16).max(32)
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator(rounded);

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
    let taken = (allocated() - before) as f64;
    let counted = logs.totals().memory_bytes;
    println!("{what}: {counted} counted, {taken} taken");
    assert!((taken * 0.9..taken * 1.1).contains(&(counted as f64)), "{what}");
    counted
}

#[test]
fn the_counted_memory_of_histories_is_what_they_take() {
    let before = allocated();
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
