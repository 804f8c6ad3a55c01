use std::collections::BTreeMap;

use serde::Serialize;

use crate::report::median;

/// One measured quantity. Bytes are those of the server process above its idle value, per socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Resident bytes of the server without sockets; not divided.
    IdleServerBytes,
    SocketBytes,
    SocketBytesAfterBroadcasts,
    SocketBytesAfterReconnects,
    /// The part of [`Figure::SocketBytes`] that is heap and stacks.
    SocketOwnBytes,
    SocketOwnBytesAfterBroadcasts,
    SocketOwnBytesAfterReconnects,
    /// Bytes left after all sockets have closed, divided by their number.
    LeftBytes,
    SetupMicros,
    DeliveryMicros,
    /// The same, after a second without a message.
    RareDeliveryMicros,
    HeartbeatMicros,
    /// Time from the push until the last socket has the message.
    LastSocketMillis,
    PollBytes,
    PollBytesAfterCycles,
    PollOwnBytes,
    PollOwnBytesAfterCycles,
    PollSetupMicros,
    /// A response and the next poll.
    PollCycleMicros,
    /// The load average of the machine before the server was started.
    LoadBefore,
}

pub type Figures = BTreeMap<Figure, f64>;

pub fn medians(rounds: &[Figures]) -> Figures {
    let mut values = BTreeMap::<Figure, Vec<f64>>::new();
    for (figure, value) in rounds.iter().flatten() {
        values.entry(*figure).or_default().push(*value);
    }
    values.into_iter().map(|(figure, values)| (figure, median(values))).collect()
}
