//! The channels whose tokens expire, in the order of time.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use watchfire_types::Instant;

use crate::channel_api::{ChannelAddress, Endpoint, ShardMessage};

/// Channels that are notified in one tick. The others follow in the next ones, ten times a second.
const NOTIFIED_PER_TICK_MAX: usize = 5_000;
/// The longest time until a channel checks its token. So a change of the system's clock, which a
/// token's end refers to, has an effect within it.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(3_600);

/// The message to a channel whose token may have expired.
pub(super) struct CheckToken;

/// The place of a channel among the [`Expiries`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ExpiryId {
    at: Instant,
    /// Distinguishes the channels of one instant.
    number: u64,
}

/// The channels whose tokens expire. There is one entry for each joined channel that needs a token.
/// Other channels cost nothing.
#[derive(Default)]
pub(super) struct Expiries(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    channels: BTreeMap<ExpiryId, ChannelAddress>,
    last_number: u64,
}

impl Expiries {
    /// Sends [`CheckToken`] to a channel after this time, or earlier.
    pub fn schedule(&self, now: Instant, after: Duration, channel: ChannelAddress) -> ExpiryId {
        let mut queue = self.0.lock();
        queue.last_number += 1;
        let number = queue.last_number;
        let id = ExpiryId { at: now + after.min(CHECK_INTERVAL_MAX), number };
        queue.channels.insert(id, channel);
        id
    }

    /// Sends nothing more to a channel.
    pub fn cancel(&self, id: ExpiryId) {
        self.0.lock().channels.remove(&id);
    }

    /// Notifies the channels that are due.
    pub fn notify_due(&self, now: Instant, endpoint: &Endpoint) {
        for _ in 0..NOTIFIED_PER_TICK_MAX {
            let Some((id, to)) = self.pop_due(now) else { return };
            let message = ShardMessage::Info { to, info: Box::new(CheckToken) };
            if endpoint.send_to(to.shard, message).is_err() {
                // The queue of the shard is full. The next tick tries again.
                self.0.lock().channels.insert(id, to);
                return;
            }
        }
    }

    fn pop_due(&self, now: Instant) -> Option<(ExpiryId, ChannelAddress)> {
        let mut queue = self.0.lock();
        let first = queue.channels.first_entry().filter(|entry| entry.key().at <= now)?;
        Some(first.remove_entry())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use watchfire_hub::SubscriptionId;
    use watchfire_types::{NodeId, ShardId};

    fn channel(serial: u32) -> ChannelAddress {
        let subscription = SubscriptionId::from_index(7);
        ChannelAddress { node: NodeId(0), shard: ShardId(0), subscription, serial }
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn channels_are_due_in_the_order_of_time_and_not_earlier() {
        let expiries = Expiries::default();
        let late = expiries.schedule(at(0), Duration::from_secs(9), channel(1));
        let early = expiries.schedule(at(1), Duration::from_secs(4), channel(2));
        let same = expiries.schedule(at(5), Duration::ZERO, channel(3));
        assert_eq!(expiries.pop_due(at(4)), None);
        assert_eq!(expiries.pop_due(at(5)), Some((early, channel(2))));
        assert_eq!(expiries.pop_due(at(5)), Some((same, channel(3))));
        assert_eq!(expiries.pop_due(at(8)), None);
        assert_eq!(expiries.pop_due(at(9)), Some((late, channel(1))));
    }

    #[test]
    fn a_channel_that_left_has_no_entry() {
        let expiries = Expiries::default();
        for serial in 0..1_000 {
            let id = expiries.schedule(at(0), Duration::from_secs(9), channel(serial));
            expiries.cancel(id);
        }
        assert_eq!(expiries.0.lock().channels.len(), 0);
    }

    #[test]
    fn a_token_of_many_years_is_checked_every_hour() {
        let expiries = Expiries::default();
        let id = expiries.schedule(at(0), Duration::MAX, channel(1));
        assert_eq!(id.at, at(3_600));
    }
}
