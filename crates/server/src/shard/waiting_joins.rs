//! Joins that wait: for the other processes, for the log of their topic, until their client has read, or for
//! their channel.
//!
//! The first subscriber of a topic subscribes the process to it. The join gets its reply only after
//! every other process has sent its state. A client with a reply therefore misses no later message,
//! and finds all presences and peers. Messages that the client sends meanwhile are handled after
//! the join, so that replies come in the order of the messages.
//!
//! A join may send much to its client: a presence list of any size, missed messages, the state of an
//! application. A client that connects again joins all its topics in the same moment. Their states together
//! do not fit into its queue, and closing it would only make it connect again, for ever. So a join
//! waits while its client's queue is over half of its limit, and each state finds room. The wait ends
//! when the client has read, when its socket is closed as too slow or its session ends, and at the
//! latest after [`ROOM_TIMEOUT`].
//!
//! A channel may let a join wait too, for a backend that decides about it. Such a wait may take
//! seconds, so the client's other channels go on. On the topic of the join, the client can leave or
//! join again; its other messages are refused.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use watchfire_channels::{JoinRef, Message};
use watchfire_hub::SubscriptionId;
use watchfire_types::Instant;

use super::client::WaitingJoin;
use super::clients::Clients;
use crate::channel_api::ChannelAddress;

/// Bytes that a client may send while its join waits. When it sends more, its socket is closed with
/// 1013, or its session ends.
const PENDING_BYTES_MAX: usize = 1 << 20;
/// The overhead of one message, in bytes.
const PENDING_OVERHEAD_BYTES: usize = 64;
/// The longest wait of a join for a log. Then its reply has no position.
const LOG_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest wait for room. A client that reads less than it gets would wait for ever.
const ROOM_TIMEOUT: Duration = Duration::from_secs(10);

/// The joins of a shard that wait, and the messages that their clients sent after them.
#[derive(Default)]
pub(super) struct WaitingJoins {
    /// Joins that wait for other processes, with the numbers of the subscriptions they wait for.
    for_processes: VecDeque<(u64, ChannelAddress)>,
    for_logs: VecDeque<TimedJoin>,
    for_room: VecDeque<TimedJoin>,
    /// Whether a topic may have got a log. A turn looks at all joins once, also after many messages.
    may_have_logs: bool,
    /// By client key: the messages that a client sent while its join waits.
    pending: HashMap<u32, PendingMessages>,
}

/// The reason for which a join, and the client's later messages, wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The other processes have not answered the subscription with this number.
    Processes(u64),
    /// The topic has no log yet.
    Log,
    /// The client has to read.
    Room,
}

struct TimedJoin {
    until: Instant,
    join: ReadyJoin,
}

/// A join that may go on.
pub(super) struct ReadyJoin {
    pub address: ChannelAddress,
    /// The message that continues it, if its channel let it wait before.
    pub continued: Option<Box<dyn Any + Send>>,
}

/// The messages that one client sent while its join waits.
#[derive(Default)]
pub(super) struct PendingMessages {
    messages: VecDeque<PendingMessage>,
    bytes: usize,
}

pub(super) enum PendingMessage {
    Text(Box<str>),
    Binary(Box<[u8]>),
}

impl PendingMessage {
    fn cost_bytes(&self) -> usize {
        PENDING_OVERHEAD_BYTES
            + match self {
                PendingMessage::Text(text) => text.len(),
                PendingMessage::Binary(bytes) => bytes.len(),
            }
    }
}

impl PendingMessages {
    pub fn pop(&mut self) -> Option<PendingMessage> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.cost_bytes();
        Some(message)
    }
}

impl WaitingJoins {
    // Messages after a join.

    /// Whether the messages of a client wait for its join.
    pub fn delays(&self, key: u32) -> bool {
        !self.pending.is_empty() && self.pending.contains_key(&key)
    }

    /// Keeps a message until the client's join is answered. Returns false when the client has sent too
    /// many bytes.
    pub fn defer_message(&mut self, key: u32, message: PendingMessage) -> bool {
        let pending = self.pending.entry(key).or_default();
        pending.bytes += message.cost_bytes();
        let has_room = pending.bytes <= PENDING_BYTES_MAX;
        if has_room {
            pending.messages.push_back(message);
        }
        has_room
    }

    /// Takes the messages of a client: its join ends, or the client is gone.
    pub fn take_pending(&mut self, key: u32) -> PendingMessages {
        self.pending.remove(&key).unwrap_or_default()
    }

    /// Keeps the messages that were not handled yet, because the next join waits. They are dropped when
    /// the client is gone.
    pub fn put_back(&mut self, key: u32, mut earlier: PendingMessages) {
        if let Some(pending) = self.pending.get_mut(&key) {
            earlier.bytes += pending.bytes;
            earlier.messages.append(&mut pending.messages);
            *pending = earlier;
        }
    }

    // Joins.

    /// Lets a join wait, and the messages that the client sends after it.
    pub fn defer(
        &mut self,
        clients: &mut Clients,
        now: Instant,
        wait: Wait,
        id: SubscriptionId,
        message: &Message<'_>,
        old: Option<JoinRef>,
    ) {
        clients.record_mut(id).begin_wait(waiting_join(now, message, old, true));
        self.pending.entry(clients.hub().client_of(id)).or_default();
        let join = ReadyJoin { address: clients.address(id), continued: None };
        match wait {
            Wait::Processes(number) => self.for_processes.push_back((number, join.address)),
            Wait::Log => self.wait_for_log(now, join.address),
            Wait::Room => self.wait_for_room(now, join),
        }
    }

    /// Lets a join wait until its channel continues it.
    pub fn hold(
        &self,
        clients: &mut Clients,
        arrived: Instant,
        id: SubscriptionId,
        message: &Message<'_>,
        old: Option<JoinRef>,
    ) {
        clients.record_mut(id).begin_wait(waiting_join(arrived, message, old, false));
    }

    fn wait_for_log(&mut self, now: Instant, address: ChannelAddress) {
        let join = ReadyJoin { address, continued: None };
        self.for_logs.push_back(TimedJoin { until: now + LOG_TIMEOUT, join });
    }

    /// Lets a join that waits already wait for room, too.
    pub fn wait_for_room(&mut self, now: Instant, join: ReadyJoin) {
        self.for_room.push_back(TimedJoin { until: now + ROOM_TIMEOUT, join });
    }

    /// A topic may have got a log.
    pub fn note_log(&mut self) {
        self.may_have_logs = true;
    }

    /// Whether a topic may have got a log since the last call.
    pub fn take_logs(&mut self) -> bool {
        std::mem::take(&mut self.may_have_logs)
    }

    /// The next join for which the other processes have sent their state: they have answered the
    /// subscriptions `up_to` this number. A join whose topic `lacks_log` waits for that.
    pub fn next_of_processes(
        &mut self,
        clients: &Clients,
        now: Instant,
        up_to: u64,
        lacks_log: impl Fn(&str) -> bool,
    ) -> Option<ReadyJoin> {
        loop {
            let (_, address) = self.for_processes.pop_front_if(|(number, _)| *number <= up_to)?;
            if clients.joining_client_at(address).is_none() {
                continue;
            }
            if !lacks_log(clients.hub().topic_of(address.subscription)) {
                return Some(ReadyJoin { address, continued: None });
            }
            self.wait_for_log(now, address);
        }
    }

    /// How many joins wait for a log, or for room.
    pub fn waiting(&mut self, wait: Wait) -> usize {
        self.timed(wait).len()
    }

    /// The next join that waits for a log, or for room, and may go on: it has waited for too long, or its
    /// topic and the client with this key do not `still_wait`. Each call reduces `left`, the number of joins
    /// to look at.
    pub fn next_timed(
        &mut self,
        clients: &Clients,
        now: Instant,
        wait: Wait,
        left: &mut usize,
        still_waits: impl Fn(&str, u32) -> bool,
    ) -> Option<ReadyJoin> {
        let timed = self.timed(wait);
        while *left > 0 {
            *left -= 1;
            let TimedJoin { until, join } = timed.pop_front()?;
            let Some(key) = clients.joining_client_at(join.address) else { continue };
            let topic = clients.hub().topic_of(join.address.subscription);
            if until <= now || !still_waits(topic, key) {
                return Some(join);
            }
            timed.push_back(TimedJoin { until, join });
        }
        None
    }

    fn timed(&mut self, wait: Wait) -> &mut VecDeque<TimedJoin> {
        match wait {
            Wait::Log => &mut self.for_logs,
            Wait::Room => &mut self.for_room,
            Wait::Processes(_) => unreachable!("these joins have no timeout"),
        }
    }

    /// The number of the subscription that a topic still waits for, from an earlier subscriber of
    /// this shard. The processes have answered the subscriptions `up_to` this number.
    pub fn awaited(&self, clients: &Clients, topic: &str, up_to: u64) -> Option<u64> {
        let waits = |&(number, address): &(u64, ChannelAddress)| {
            let is_there = clients.is_current(address);
            (is_there && number > up_to && clients.hub().topic_of(address.subscription) == topic)
                .then_some(number)
        };
        self.for_processes.iter().find_map(waits)
    }
}

fn waiting_join(
    arrived: Instant,
    message: &Message<'_>,
    old: Option<JoinRef>,
    delays_client: bool,
) -> WaitingJoin {
    WaitingJoin {
        join_ref: message.join_ref.clone(),
        reference: message.reference.clone(),
        payload: message.payload.into(),
        delays_client,
        old,
        arrived,
    }
}

#[cfg(test)]
mod tests {
    use watchfire_channels::{Payload, Ref};

    use super::*;
    use crate::shard::clients::tests::{client, clients};

    const NOW: Instant = Instant::ZERO;

    /// A client joins a topic, and the join waits.
    fn defer(
        joins: &mut WaitingJoins,
        clients: &mut Clients,
        topic: &str,
        wait: Wait,
    ) -> ChannelAddress {
        let key = client(clients);
        let message = Message {
            join_ref: Ref::NULL,
            reference: Ref::NULL,
            topic: topic.into(),
            event: "phx_join".into(),
            payload: Payload::Json("{}"),
        };
        let id = clients.subscribe_channel(key, topic, JoinRef::of(&message), 0);
        joins.defer(clients, NOW, wait, id, &message, None);
        clients.address(id)
    }

    fn next(joins: &mut WaitingJoins, clients: &Clients, up_to: u64) -> Option<ChannelAddress> {
        joins.next_of_processes(clients, NOW, up_to, |_| false).map(|ready| ready.address)
    }

    #[test]
    fn joins_go_on_in_order_when_the_processes_have_answered_their_subscriptions() {
        let (mut joins, mut clients) = (WaitingJoins::default(), clients());
        let [first, second, third] =
            [1, 1, 2].map(|number| defer(&mut joins, &mut clients, "a", Wait::Processes(number)));
        assert_eq!(next(&mut joins, &clients, 0), None);
        assert_eq!(joins.awaited(&clients, "a", 0), Some(1));
        assert_eq!(joins.awaited(&clients, "b", 0), None);
        clients.unsubscribe_channel(0, first.subscription);
        assert_eq!(next(&mut joins, &clients, 1), Some(second), "the first client has left");
        assert_eq!(next(&mut joins, &clients, 1), None);
        assert_eq!(joins.awaited(&clients, "a", 1), Some(2));
        assert_eq!(next(&mut joins, &clients, 2), Some(third));
    }

    #[test]
    fn a_join_whose_topic_has_no_log_waits_for_it_after_the_processes() {
        let (mut joins, mut clients) = (WaitingJoins::default(), clients());
        let address = defer(&mut joins, &mut clients, "a", Wait::Processes(1));
        assert!(joins.next_of_processes(&clients, NOW, 1, |_| true).is_none());
        let mut at = |now, lacks_log: bool| {
            let mut left = joins.waiting(Wait::Log);
            let ready = joins.next_timed(&clients, now, Wait::Log, &mut left, |_, _| lacks_log);
            ready.map(|ready| ready.address)
        };
        assert_eq!(at(NOW + (LOG_TIMEOUT - Duration::from_millis(1)), true), None);
        assert_eq!(at(NOW + LOG_TIMEOUT, true), Some(address), "it has waited long enough");
    }

    #[test]
    fn each_join_that_waits_for_room_is_looked_at_once_after_the_one_before_it_went_on() {
        let (mut joins, mut clients) = (WaitingJoins::default(), clients());
        let all = [0; 3].map(|_| defer(&mut joins, &mut clients, "a", Wait::Room));
        let mut left = joins.waiting(Wait::Room);
        let mut next = |joins: &mut WaitingJoins, crowded: &[u32]| {
            let is_crowded = |_: &str, key: u32| crowded.contains(&key);
            let ready = joins.next_timed(&clients, NOW, Wait::Room, &mut left, is_crowded);
            ready.map(|ready| ready.address)
        };
        assert_eq!(next(&mut joins, &[0]), Some(all[1]));
        assert_eq!(
            next(&mut joins, &[0, 2]),
            None,
            "the second join filled the queue of the third"
        );
        assert_eq!(joins.waiting(Wait::Room), 2);
    }

    #[test]
    fn messages_after_a_join_wait_in_order_up_to_a_bound() {
        let (mut joins, mut clients) = (WaitingJoins::default(), clients());
        assert!(!joins.delays(0));
        defer(&mut joins, &mut clients, "a", Wait::Log);
        assert!(joins.delays(0) && !joins.delays(1));
        let text = |len| PendingMessage::Text("x".repeat(len).into());
        let most = PENDING_BYTES_MAX - 2 * PENDING_OVERHEAD_BYTES;
        assert!(joins.defer_message(0, text(most - 1)) && joins.defer_message(0, text(1)));

        let mut pending = joins.take_pending(0);
        assert!(pending.pop().is_some() && !joins.delays(0));
        joins.put_back(0, pending);
        assert!(!joins.delays(0), "the client is gone, or no join of it waits");

        defer(&mut joins, &mut clients, "b", Wait::Log);
        assert!(joins.defer_message(1, text(most)));
        let pending = joins.take_pending(1);
        assert!(joins.defer_message(1, text(most)), "the next join waits");
        joins.put_back(1, pending);
        assert!(!joins.defer_message(1, text(0)), "both together are too many");
    }
}
