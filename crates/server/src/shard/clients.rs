//! The clients of a shard, by their keys, and the topics that they are subscribed to.

use std::net::IpAddr;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use watchfire_channels::longpoll::Status;
use watchfire_channels::{JoinRef, Ref, Serializer, event};
use watchfire_hub::{Hub, HubLimits, PresenceOwner, QueueFull, SubscriptionId, Subscriptions};
use watchfire_sockets::{Count, Sockets};
use watchfire_types::{NodeId, ShardId, Slab, heap_bytes};

use super::client::{
    Client, ConnectionDetails, JoinedChannel, RateLimits, SubscriptionRecord, Transport, Use,
    id_of_topic, id_topic,
};
use super::session::Session;
use super::stream_answers::refusal_of_stream;
use super::subscriptions::SubscriptionRecords;
use super::topic_traffic::{Rates, TopicTraffic};
use crate::channel_api::{Body, Broadcast, ChannelAddress, Connected, Encoded, encoding};
use crate::metrics::ShardMetrics;

/// The clients of a shard, by their keys. The key of a client that is gone is used again, with
/// another generation.
pub(super) struct Clients {
    node: NodeId,
    shard: ShardId,
    metrics: Arc<ShardMetrics>,
    entries: Slab<Option<Client>>,
    /// It wraps after four billion clients. No id of a client that is gone is kept until then.
    last_generation: u32,
    hub: Hub<Arc<Broadcast>>,
    /// A record for each of the hub's subscriptions, by the subscription's index.
    records: SubscriptionRecords,
    traffic: TopicTraffic,
    /// Clients with details.
    detailed: usize,
    /// The keys of clients whose long-poll session ended, or whose stream was refused, in this call of the event loop.
    ended: Vec<u32>,
}

/// A subscriber that gets a broadcast.
pub(super) struct Recipient<'a> {
    pub key: u32,
    pub client: &'a mut Client,
    pub subscription: SubscriptionId,
    pub record: &'a SubscriptionRecord,
}

/// A joined channel of a client, for a callback of the application.
pub(super) struct ClientChannel<'a> {
    pub topic: &'a str,
    pub details: Option<&'a ConnectionDetails>,
    /// The id of the client's socket.
    pub id: Option<&'a str>,
    /// The number of the application's channel.
    pub number: u16,
    pub channel: &'a mut JoinedChannel,
}

const _: () =
    assert!(size_of::<Option<Client>>() == size_of::<Client>(), "a free entry has no tag");

impl Clients {
    /// No clients. `node` and `shard` are in the addresses of their channels.
    pub fn new(node: NodeId, shard: ShardId, seed: u64, metrics: Arc<ShardMetrics>) -> Self {
        Clients {
            node,
            shard,
            metrics,
            entries: Slab::default(),
            last_generation: 0,
            hub: Hub::new(seed, HubLimits::default()),
            records: SubscriptionRecords::default(),
            traffic: TopicTraffic::default(),
            detailed: 0,
            ended: Vec::new(),
        }
    }

    pub fn node(&self) -> NodeId {
        self.node
    }

    pub fn shard(&self) -> ShardId {
        self.shard
    }

    /// The topics and subscriptions of all clients.
    pub fn hub(&self) -> &Hub<Arc<Broadcast>> {
        &self.hub
    }

    // Clients.

    /// The key and the generation that the next client gets.
    pub fn next(&self) -> (u32, u32) {
        (self.entries.next_slot(), self.last_generation.wrapping_add(1))
    }

    /// Adds a client, with a generation of its own. Returns its key.
    pub fn add(
        &mut self,
        transport: Transport,
        serializer: Serializer,
        connected: Connected,
        counted: Option<IpAddr>,
    ) -> u32 {
        clients_now(&self.metrics, &transport).add(1);
        self.last_generation = self.last_generation.wrapping_add(1);
        let key = self.entries.insert(Some(Client {
            transport,
            subscriptions: Subscriptions::default(),
            rates: RateLimits::default(),
            serializer,
            generation: self.last_generation,
            details: None,
        }));
        let id = connected.id.map(|id| self.subscribe(key, &id_topic(&id), 0, Use::SocketId));
        if id.is_some() || counted.is_some() || connected.data.is_some() {
            let details = ConnectionDetails { data: connected.data, id, counted };
            self[key].details = Some(Box::new(details));
            self.detailed += 1;
        }
        self.metrics.guests_now.add(self[key].guest().is_some().into());
        key
    }

    /// Removes a client without channels. Returns the address that it counts against.
    pub fn remove(&mut self, key: u32) -> Option<IpAddr> {
        let client = self.entries.remove(key).expect("the client exists");
        clients_now(&self.metrics, &client.transport).sub(1);
        self.metrics.guests_now.sub(client.guest().is_some().into());
        self.detailed -= usize::from(client.details.is_some());
        client.counted()
    }

    /// The memory of the records of clients, without queues.
    pub fn memory_bytes(&self) -> usize {
        let sessions = self.metrics.longpolls_now.get() as usize * heap_bytes(size_of::<Session>());
        let details = self.detailed * heap_bytes(size_of::<ConnectionDetails>());
        self.entries.memory_bytes() + sessions + details
    }

    /// The memory of topics and subscriptions.
    pub fn topic_bytes(&self) -> usize {
        self.hub.memory_bytes() + self.records.memory_bytes()
    }

    /// A number above every key in use.
    pub fn key_count(&self) -> u32 {
        self.entries.slots() as u32
    }

    pub fn get(&self, key: u32) -> Option<&Client> {
        self.entries.get(key)?.as_ref()
    }

    pub fn get_mut(&mut self, key: u32) -> Option<&mut Client> {
        self.entries.get_mut(key)?.as_mut()
    }

    /// Whether a client is there, and its session has not ended.
    pub fn is_connected(&self, key: u32) -> bool {
        self.get(key).is_some_and(|client| !client.is_ending())
    }

    /// Ends a long-poll session: answers its poll. Its token becomes invalid. Its channels end when this
    /// call of the event loop does, because the caller may still use them.
    pub fn end_session(&mut self, sockets: &mut Sockets, key: u32, status: Status) {
        if let Some(Client { transport: Transport::LongPoll(session), .. }) = self.get_mut(key)
            && session.end(sockets, status)
        {
            self.ended.push(key);
        }
    }

    /// Ends an event stream: refuses its request, or ends its response with an event that says why. `response` is JSON.
    /// No other transport is changed.
    pub fn end_stream(&mut self, sockets: &mut Sockets, key: u32, status: u16, response: &str) {
        let Some(&Transport::Events(socket)) = self.get(key).map(|client| &client.transport) else {
            return;
        };
        if sockets.answer(socket, &refusal_of_stream(status, response)) {
            self.ended.push(key);
        } else {
            let error = Body::Json(response.to_owned().into());
            let last = encoding::push(
                Serializer::Events,
                &JoinRef::new(&Ref::NULL, &Ref::NULL),
                "",
                event::ERROR,
                error.as_payload(),
            );
            sockets.end_stream(socket, &last.expect("an event carries JSON").into_frame());
        }
    }

    /// The key of a client whose session has ended.
    pub fn next_ended(&mut self) -> Option<u32> {
        self.ended.pop()
    }

    // Subscriptions.

    /// Subscribes a client to the topic of a channel, whose number in the application this is.
    pub fn subscribe_channel(
        &mut self,
        key: u32,
        topic: &str,
        join_ref: JoinRef,
        number: u16,
    ) -> SubscriptionId {
        let channel = JoinedChannel { join_ref, presence: PresenceOwner::default(), state: None };
        self.metrics.channels_now.add(1);
        self.subscribe(key, topic, number, Use::Channel(channel))
    }

    fn subscribe(&mut self, key: u32, topic: &str, number: u16, used_by: Use) -> SubscriptionId {
        let client = entry(&mut self.entries, key);
        let id = self.hub.subscribe(key, &mut client.subscriptions, topic);
        self.records.open(id, number, used_by);
        id
    }

    /// Ends the subscription of a channel, also of one whose join waits.
    pub fn unsubscribe_channel(&mut self, key: u32, id: SubscriptionId) -> JoinedChannel {
        self.metrics.channels_now.sub(1);
        match self.unsubscribe(key, id) {
            Use::Channel(channel) => channel,
            Use::Joining(joining) => joining.channel,
            Use::SocketId | Use::Free => unreachable!("only a channel can be left"),
        }
    }

    /// Ends the subscription to the topic of a client's id.
    pub fn unsubscribe_id(&mut self, key: u32) {
        let details = self[key].details.as_mut();
        if let Some(id) = details.and_then(|details| details.id.take()) {
            self.unsubscribe(key, id);
        }
    }

    fn unsubscribe(&mut self, key: u32, id: SubscriptionId) -> Use {
        self.hub.unsubscribe(&mut entry(&mut self.entries, key).subscriptions, id);
        self.records.close(id)
    }

    /// The subscription of a client to a topic.
    pub fn find(&self, key: u32, topic: &str) -> Option<SubscriptionId> {
        self.hub.find(&self.get(key)?.subscriptions, topic)
    }

    /// One of the subscriptions of a client.
    pub fn any_subscription(&self, key: u32) -> Option<SubscriptionId> {
        self.hub.subscriptions(&self[key].subscriptions).next()
    }

    pub fn record(&self, id: SubscriptionId) -> &SubscriptionRecord {
        &self.records[id]
    }

    pub fn record_mut(&mut self, id: SubscriptionId) -> &mut SubscriptionRecord {
        &mut self.records[id]
    }

    // Channels.

    /// The address of a subscription.
    pub fn address(&self, id: SubscriptionId) -> ChannelAddress {
        let (node, shard, serial) = (self.node, self.shard, self.records[id].serial);
        ChannelAddress { node, shard, subscription: id, serial }
    }

    /// Whether an address is one of this shard.
    pub fn owns(&self, address: ChannelAddress) -> bool {
        (address.node, address.shard) == (self.node, self.shard)
    }

    /// The client of a channel that is still joined.
    pub fn client_at(&self, address: ChannelAddress) -> Option<u32> {
        self.user_at(address, |used_by| matches!(used_by, Use::Channel(_)))
    }

    /// The client of a join that still waits. It may have left, or joined again.
    pub fn joining_client_at(&self, address: ChannelAddress) -> Option<u32> {
        self.user_at(address, |used_by| matches!(used_by, Use::Joining(_)))
    }

    fn user_at(&self, address: ChannelAddress, is_wanted: impl Fn(&Use) -> bool) -> Option<u32> {
        (self.is_current(address) && is_wanted(&self.records[address.subscription].used_by))
            .then(|| self.hub.client_of(address.subscription))
    }

    /// Whether nothing else has used the subscription of an address since.
    pub fn is_current(&self, address: ChannelAddress) -> bool {
        let record = self.records.get(address.subscription);
        record.is_some_and(|record| record.serial == address.serial)
    }

    /// A joined channel.
    pub fn channel_mut(&mut self, id: SubscriptionId) -> ClientChannel<'_> {
        let Clients { hub, entries, records, .. } = self;
        let details = entry(entries, hub.client_of(id)).details.as_deref();
        let record = &mut records[id];
        ClientChannel {
            topic: hub.topic_of(id),
            details,
            id: details.and_then(|details| details.id).map(|id| id_of_topic(hub.topic_of(id))),
            number: record.number,
            channel: record.channel_mut(),
        }
    }

    /// Encodes a message of a joined channel for its client.
    pub fn with_channel(
        &self,
        key: u32,
        address: ChannelAddress,
        encode: impl FnOnce(Serializer, &str, &JoinRef) -> Option<Encoded>,
    ) -> Option<Encoded> {
        let Use::Channel(channel) = &self.records[address.subscription].used_by else {
            unreachable!("the caller looked the address up")
        };
        let topic = self.hub.topic_of(address.subscription);
        encode(self[key].serializer, topic, &channel.join_ref)
    }

    // Traffic.

    /// Messages and bytes that pass through the topics.
    pub fn traffic(&mut self) -> &mut TopicTraffic {
        &mut self.traffic
    }

    pub fn rates(&self, topic: &str) -> Rates {
        self.traffic.rates(topic)
    }

    /// Counts a message of a channel.
    pub fn note_traffic(&mut self, id: SubscriptionId, bytes: usize) {
        self.traffic.note(self.hub.topic_of(id), 1, bytes as u64);
    }

    // Broadcasts.

    /// Queues a broadcast for the subscribers of its topic.
    pub fn broadcast(&mut self, broadcast: &Arc<Broadcast>) -> Result<bool, QueueFull> {
        self.hub.broadcast(&broadcast.topic, broadcast.clone())
    }

    /// Visits the next `budget` subscribers of the queued broadcasts. Returns whether more wait.
    pub fn deliver(
        &mut self,
        budget: usize,
        mut visit: impl FnMut(Recipient<'_>, &Arc<Broadcast>),
        mut finished: impl FnMut(Arc<Broadcast>, u32),
    ) -> bool {
        let Clients { hub, entries, records, traffic, .. } = self;
        let visit = |subscription, key, broadcast: &Arc<Broadcast>| {
            let (client, record) = (entry(entries, key), &records[subscription]);
            visit(Recipient { key, client, subscription, record }, broadcast);
        };
        hub.deliver(budget, visit, |broadcast, subscribers| {
            let all = u64::from(subscribers);
            traffic.note(&broadcast.topic, all, all * broadcast.body.len() as u64);
            finished(broadcast, subscribers);
        })
    }
}

/// The count of open clients with a transport.
fn clients_now<'a>(metrics: &'a ShardMetrics, transport: &Transport) -> &'a Count {
    match transport {
        Transport::WebSocket(_) => &metrics.websockets_now,
        Transport::LongPoll(_) => &metrics.longpolls_now,
        Transport::Events(_) => &metrics.streams_now,
    }
}

fn entry(entries: &mut Slab<Option<Client>>, key: u32) -> &mut Client {
    entries.get_mut(key).and_then(Option::as_mut).expect("the client exists")
}

impl Index<u32> for Clients {
    type Output = Client;

    fn index(&self, key: u32) -> &Client {
        self.get(key).expect("the client exists")
    }
}

impl IndexMut<u32> for Clients {
    fn index_mut(&mut self, key: u32) -> &mut Client {
        self.get_mut(key).expect("the client exists")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use watchfire_types::SocketId;

    use super::*;
    use crate::metrics::Metrics;

    pub fn clients() -> Clients {
        Clients::new(NodeId(0), ShardId(1), 7, Metrics::default().add_shard())
    }

    /// Adds a client without an id.
    pub fn client(clients: &mut Clients) -> u32 {
        add(clients, Connected::default())
    }

    fn no_ref() -> JoinRef {
        JoinRef::new(&Ref::NULL, &Ref::NULL)
    }

    fn add(clients: &mut Clients, connected: Connected) -> u32 {
        let socket = SocketId { index: 0, generation: 0 };
        clients.add(Transport::WebSocket(socket), Serializer::V2, connected, None)
    }

    #[test]
    fn a_key_is_used_again_with_another_generation() {
        let mut clients = clients();
        assert_eq!([0; 3].map(|_| client(&mut clients)), [0, 1, 2]);
        let first = clients[0].generation;
        clients.remove(0);
        clients.remove(2);
        assert!(clients.get(0).is_none() && clients.get_mut(2).is_none());
        let (key, generation) = clients.next();
        assert_eq!([0; 3].map(|_| client(&mut clients)), [0, 2, 3]);
        assert_eq!((key, generation), (0, clients[0].generation));
        assert_ne!(clients[0].generation, first);
        assert!(clients.key_count() > 3);
    }

    #[test]
    fn an_address_names_one_join_and_not_the_next_of_the_same_client() {
        let mut clients = clients();
        let key = client(&mut clients);
        let join = |clients: &mut Clients| {
            let id = clients.subscribe_channel(key, "rooms:a", no_ref(), 3);
            (id, clients.address(id))
        };
        let (id, first) = join(&mut clients);
        assert!(clients.owns(first) && clients.client_at(first) == Some(key));
        assert_eq!((clients.find(key, "rooms:a"), clients.channel_mut(id).number), (Some(id), 3));
        clients.unsubscribe_channel(key, id);
        assert_eq!((clients.client_at(first), clients.find(key, "rooms:a")), (None, None));
        let (_, second) = join(&mut clients);
        assert_eq!((clients.client_at(first), clients.client_at(second)), (None, Some(key)));
        assert_eq!(clients.joining_client_at(second), None, "its join does not wait");
    }

    #[test]
    fn the_topic_of_an_id_is_no_channel_and_ends_with_its_client() {
        let mut clients = clients();
        let key = add(&mut clients, Connected::default().with_id("users:1"));
        let id = clients.find(key, &id_topic("users:1")).expect("it is subscribed");
        assert!(matches!(clients.record(id).used_by, Use::SocketId));
        assert_eq!(clients.client_at(clients.address(id)), None);
        clients.unsubscribe_id(key);
        assert_eq!((clients.any_subscription(key), clients.hub().topics()), (None, 0));
    }
}
