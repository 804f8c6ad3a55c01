//! Messages between processes about grids.

use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message<'a> {
    Slots {
        grid: &'a str,
        changes: Vec<(u64, SlotState)>,
    },
    /// The receiver's subscription to a grid ended, so what it knows of the sender's slots is outdated.
    Ended {
        grid: &'a str,
    },
    /// A sprite for a peer of a grid. A returned sprite is not returned again.
    Sprite {
        grid: &'a str,
        to: u64,
        from: u64,
        arrival: &'a str,
        is_returned: bool,
    },
    /// Peers of the receiver for which the sender threw since its last such message.
    Threw {
        peers: Vec<u64>,
    },
}

/// A request about a peer that polls, whose slot is at the process that answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request<'a> {
    Throw { grid: &'a str, peer: u64, throw: &'a [u8] },
    Leave { grid: &'a str, peer: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SlotState {
    /// A peer at the sending process has the slot.
    Taken,
    /// The slot is reserved for the peer that had it.
    Reserved,
    Closed,
}

#[cfg(test)]
pub(crate) fn message_samples() -> Vec<watchfire::internal::Samples> {
    use watchfire::message_samples as samples;
    let (grid, peer) = ("g", 7);
    let changes = vec![(7, SlotState::Taken), (8, SlotState::Closed)];
    let sprite = Message::Sprite { grid, to: 1, from: 2, arrival: "{}", is_returned: true };
    let threw = Message::Threw { peers: vec![7] };
    vec![
        samples!(enum Message<'_>:
            Message::Slots { grid, changes },
            Message::Ended { grid },
            sprite,
            threw,
        ),
        samples!(enum Request<'_>:
            Request::Throw { grid, peer, throw: b"t" },
            Request::Leave { grid, peer },
        ),
        samples!(enum SlotState: SlotState::Taken, SlotState::Reserved, SlotState::Closed),
    ]
}
