//! The state of a shard.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use watchfire_hub::{Hub, HubLimits, SubscriptionId};
use watchfire_types::ShardId;

use super::awaited::Backpressure;
use super::client::SubscriptionRecord;
use super::clients::Clients;
use super::history_topics::HistoryTopics;
use super::presence_rounds::PresenceRounds;
use super::scan_queue::Scans;
use super::shared::Shared;
use super::subscriptions::SubscriptionRecords;
use super::waiting::{CrowdedJoin, ParkedRequests, PendingMessages, WaitingUpgrades};
use super::watches::Watches;
use crate::channel_api::{AnyStates, Broadcast, ChannelAddress, Effect};
use crate::metrics::ShardMetrics;

/// One event loop's clients, topics and channels.
pub(crate) struct Shard {
    pub(super) id: ShardId,
    pub(super) shared: Arc<Shared>,
    pub(super) metrics: Arc<ShardMetrics>,
    pub(super) hub: Hub<Arc<Broadcast>>,
    pub(super) clients: Clients,
    /// A record for each of the hub's subscriptions, by the subscription's index.
    pub(super) records: SubscriptionRecords,
    /// The states of the joined clients of each channel, by the channel's number.
    pub(super) states: Vec<AnyStates>,
    /// Effects that the running callback requested; empty between callbacks.
    pub(super) effects: Vec<Effect>,
    /// Of the first shard: the broadcasts of presence changes.
    pub(super) presence_rounds: PresenceRounds,
    /// The keys of clients whose long-poll session ended in this call of the event loop.
    pub(super) ended_sessions: Vec<u32>,
    /// The key of the client that the sweep of long-poll sessions checked last.
    pub(super) swept: usize,
    /// Joins that wait for other processes, with the numbers of the subscriptions they wait for.
    pub(super) joining: VecDeque<(u64, ChannelAddress)>,
    /// Joins that wait until their client has read.
    pub(super) crowded_joins: Vec<CrowdedJoin>,
    /// By client key: the messages that a client sent while its join waits.
    pub(super) pending_messages: HashMap<u32, PendingMessages>,
    pub(super) parked: ParkedRequests,
    pub(super) upgrades: WaitingUpgrades,
    pub(super) history: HistoryTopics,
    pub(super) scans: Scans,
    pub(super) watches: Watches,
    pub(super) backpressure: Backpressure,
}

impl Shard {
    /// A shard without clients.
    pub fn new(id: ShardId, shared: Arc<Shared>, seed: u64) -> Self {
        Shard {
            id,
            states: shared.registry.states(),
            metrics: shared.metrics.add_shard(),
            shared,
            hub: Hub::new(seed, HubLimits::default()),
            clients: Clients::default(),
            records: SubscriptionRecords::default(),
            effects: Vec::new(),
            presence_rounds: PresenceRounds::new(),
            ended_sessions: Vec::new(),
            swept: 0,
            joining: VecDeque::new(),
            crowded_joins: Vec::new(),
            pending_messages: HashMap::new(),
            parked: ParkedRequests::default(),
            upgrades: WaitingUpgrades::default(),
            history: HistoryTopics::default(),
            scans: Scans::default(),
            watches: Watches::default(),
            backpressure: Backpressure::default(),
        }
    }

    /// Whether this is the first shard, which also does the work of the whole process.
    pub(super) fn is_first(&self) -> bool {
        self.id == ShardId(0)
    }

    /// The address of a subscription.
    pub(super) fn address(&self, id: SubscriptionId) -> ChannelAddress {
        ChannelAddress {
            node: self.shared.cluster.me(),
            shard: self.id,
            subscription: id,
            serial: self.records[id].serial,
        }
    }

    /// Whether an address is one of this shard.
    pub(super) fn owns(&self, address: ChannelAddress) -> bool {
        (address.node, address.shard) == (self.shared.cluster.me(), self.id)
    }

    /// The record of a subscription of the hub.
    pub(super) fn record_mut(&mut self, id: SubscriptionId) -> &mut SubscriptionRecord {
        &mut self.records[id]
    }
}
