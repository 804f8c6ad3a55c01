//! Joins that wait until their client has read.
//!
//! A join may send much to its client: a presence list of any size, missed messages, the state of an
//! application. A client that connects again joins all its topics in the same moment. Their states together
//! do not fit into its queue, and closing it would only make it connect again, for ever. So a join
//! waits while its client's queue is over half of its limit, and each state finds room.
//!
//! The wait ends when the client has read, when its socket is closed as too slow or its session ends,
//! and at the latest after [`WAIT_MAX`].

use std::any::Any;
use std::time::Duration;

use watchfire_channels::{JoinRef, Message};
use watchfire_hub::SubscriptionId;
use watchfire_sockets::Sockets;

use super::client::Transport;
use super::state::Shard;
use super::waiting::CrowdedJoin;
use crate::channel_api::ChannelAddress;

/// The longest wait. A client that reads less than it gets would wait for ever.
const WAIT_MAX: Duration = Duration::from_secs(10);

impl Shard {
    /// Whether a client has to read before it gets the state of another topic.
    pub(super) fn is_crowded(&self, sockets: &Sockets, key: u32) -> bool {
        let Some(client) = self.clients.get(key as usize) else { return false };
        let limits = &self.shared.limits;
        match &client.transport {
            Transport::WebSocket(socket) => {
                sockets.queued_bytes(*socket) > limits.queued_bytes_max as usize / 2
            }
            Transport::LongPoll(session) => {
                session.state.queued_bytes() > limits.longpoll_bytes_max / 2
            }
        }
    }

    /// Defers a join, and the client's later messages, until the client has read.
    pub(super) fn defer_until_read(
        &mut self,
        sockets: &Sockets,
        id: SubscriptionId,
        message: &Message<'_>,
        old: Option<JoinRef>,
    ) {
        self.park_join(sockets.now(), id, message, old);
        self.await_room(sockets, self.address(id), None);
    }

    /// Lets a join that waits already wait for room, too.
    pub(super) fn await_room(
        &mut self,
        sockets: &Sockets,
        address: ChannelAddress,
        continued: Option<Box<dyn Any + Send>>,
    ) {
        let until = sockets.now() + WAIT_MAX;
        self.crowded_joins.push(CrowdedJoin { until, address, continued });
    }

    /// Continues the joins whose clients have read.
    pub(super) fn resume_crowded(&mut self, sockets: &mut Sockets) {
        let now = sockets.now();
        for join in std::mem::take(&mut self.crowded_joins) {
            let Some(key) = self.joining_client_at(join.address) else { continue };
            if join.until > now && self.is_crowded(sockets, key) {
                self.crowded_joins.push(join);
                continue;
            }
            match join.continued {
                None => self.resume_waiting_join(sockets, join.address),
                Some(info) => self.resume_join(sockets, join.address.subscription, Some(info)),
            }
        }
    }
}
