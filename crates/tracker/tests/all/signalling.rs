//! Forwarding of the signals with which two peers connect directly.

use std::time::Duration;

use watchfire_tracker::{Have, PageLimits, Pages, RelayRefusal};
use watchfire_types::PeerId;

use crate::{ALICE, BOB, PAGE, at};

/// Alice and Bob. A peer sends 10 signals a second, with a burst of one second, and relays nothing.
fn pages() -> Pages<&'static str> {
    let mut pages = Pages::new(PageLimits {
        signals_per_second_per_peer: 10,
        signal_burst: Duration::from_secs(1),
        relay_bytes_per_second_per_peer: 0,
        ..PageLimits::default()
    });
    pages.join(at(0), PAGE, ALICE, "alice", Have::All).unwrap();
    pages.join(at(0), PAGE, BOB, "bob", Have::Nothing).unwrap();
    pages
}

#[test]
fn a_signal_is_sent_to_the_address_of_its_destination_independent_of_relay_budgets() {
    let mut pages = pages();
    assert_eq!(pages.signal(at(0), PAGE, ALICE, BOB), Ok("bob"));
    assert_eq!(pages.signal(at(0), PAGE, BOB, ALICE), Ok("alice"));
}

#[test]
fn peers_outside_the_page_neither_send_nor_receive_signals() {
    let mut pages = pages();
    let refused = Err(RelayRefusal::NoSuchPeer);
    assert_eq!(pages.signal(at(0), PAGE, ALICE, PeerId(9)), refused);
    assert_eq!(pages.signal(at(0), PAGE, PeerId(9), ALICE), refused);
    assert_eq!(pages.signal(at(0), "bafyother", ALICE, BOB), refused);
    assert_eq!(pages.signal(at(0), PAGE, ALICE, ALICE), refused);
}

#[test]
fn a_peer_over_its_signal_budget_gets_the_time_to_wait_and_others_are_not_affected() {
    let mut pages = pages();
    let passed = (0..50).filter(|_| pages.signal(at(0), PAGE, ALICE, BOB).is_ok()).count();
    assert_eq!(passed, 10);
    let retry_after = Duration::from_millis(100);
    let refused = Err(RelayRefusal::PeerBudget { retry_after });
    assert_eq!(pages.signal(at(0), PAGE, ALICE, BOB), refused);
    assert_eq!(pages.signal(at(0), PAGE, BOB, ALICE), Ok("alice"));
    assert_eq!(pages.signal(at(100), PAGE, ALICE, BOB), Ok("bob"));
}
