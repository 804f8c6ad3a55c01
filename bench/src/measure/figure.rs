use std::collections::BTreeMap;

use serde::Serialize;

/// One thing that is measured. Bytes are those of the server process above what it had idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Resident bytes of the server before anybody came; not divided.
    IdleServerBytes,
    SocketBytes,
    SocketBytesAfterBroadcasts,
    SocketBytesAfterReconnects,
    /// The part of [`Figure::SocketBytes`] that is heap and stacks; the rest is program text.
    SocketOwnBytes,
    SocketOwnBytesAfterBroadcasts,
    SocketOwnBytesAfterReconnects,
    /// What is left after all have gone, still divided by their number.
    LeftBytes,
    SetupMicros,
    DeliveryMicros,
    /// The same, when the last message was long ago.
    RareDeliveryMicros,
    HeartbeatMicros,
    /// From the push to the last socket's receipt, on the clock.
    LastSocketMillis,
    PollBytes,
    PollBytesAfterCycles,
    PollOwnBytes,
    PollOwnBytesAfterCycles,
    PollSetupMicros,
    /// One answer and the next poll.
    PollCycleMicros,
}

/// What one server showed in one round.
pub type Figures = BTreeMap<Figure, f64>;

/// The median of every figure over rounds.
pub fn medians(rounds: &[Figures]) -> Figures {
    let mut values = BTreeMap::<Figure, Vec<f64>>::new();
    for (figure, value) in rounds.iter().flatten() {
        values.entry(*figure).or_default().push(*value);
    }
    values.into_iter().filter_map(|(figure, values)| Some((figure, median(values)?))).collect()
}

/// The middle value, or the mean of the two in the middle.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values[values.len() / 2]);
    Some((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_outlier_does_not_move_the_median() {
        assert_eq!(median(vec![5.0, 400.0, 4.0]), Some(5.0));
        assert_eq!(median(vec![4.0, 5.0]), Some(4.5));
        assert_eq!(median(vec![]), None);
    }
}
