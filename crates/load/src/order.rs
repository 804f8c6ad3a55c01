//! The order of numbered messages at one receiver.
//!
//! A sender numbers its messages from 1. A receiver that has joined later begins with any number; from then on each
//! number must follow the one before, also over its connections.

use std::collections::BTreeMap;

use watchfire_types::Instant;

/// The names of the counters in the results.
pub(crate) const COUNTERS: [&str; 3] = [RECEIVED, REPEATED, MISSING];
pub(crate) const RECEIVED: &str = "in_order_received";
pub(crate) const REPEATED: &str = "in_order_repeated";
pub(crate) const MISSING: &str = "in_order_missing";

/// The numbers that one user has given to its messages, and those that it has received.
#[derive(Debug, Default)]
pub(crate) struct Order {
    sent: u32,
    /// The last number of each sender.
    received: BTreeMap<u32, u32>,
    /// When its websocket was opened.
    opened_at: Instant,
}

/// How a number follows the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// That many numbers are missing before it.
    Next { missing: u32 },
    /// The receiver has had this number or a later one.
    Repeated,
}

impl Order {
    /// The number of the next message.
    pub(crate) fn next_number(&mut self) -> u32 {
        self.sent += 1;
        self.sent
    }

    pub(crate) fn note_opened(&mut self, now: Instant) {
        self.opened_at = now;
    }

    pub(crate) fn opened_at(&self) -> Instant {
        self.opened_at
    }

    pub(crate) fn note(&mut self, sender: u32, number: u32) -> Step {
        let last = self.received.entry(sender).or_insert(number.saturating_sub(1));
        match number.checked_sub(*last) {
            None | Some(0) => Step::Repeated,
            Some(step) => {
                *last = number;
                Step::Next { missing: step - 1 }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sender_has_an_order_of_its_own() {
        let mut order = Order::default();
        let next = |missing| Step::Next { missing };
        for (sender, number, expected) in [
            (1, 7, next(0)),
            (2, 1, next(0)),
            (1, 8, next(0)),
            (1, 8, Step::Repeated),
            (1, 11, next(2)),
            (1, 10, Step::Repeated),
            (2, 2, next(0)),
            (3, 0, Step::Repeated),
        ] {
            assert_eq!(order.note(sender, number), expected, "{number} of {sender}");
        }
    }
}
