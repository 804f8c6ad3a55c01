//! The exchange: one node has all blocks, four get them from it and from each other.
//!
//! Blocks have a CID and a length, and no bytes, as in the simulator: hashing their bytes would be nine
//! tenths of the instructions, and hide a slower exchange. The workload `messages` counts the hashing.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use watchfire_bitswap::{Exchange, Limits, Message, Output, Payload, Protocol, SessionId, Want};
use watchfire_content::{Cid, Codec, Multihash};
use watchfire_types::Instant;

const NODES: usize = 5;
const BLOCKS: u64 = 256;
const BLOCK_BYTES: usize = 16 << 10;
const SEND_BUFFER_BYTES: usize = 512 << 10;
const UPLINK_BYTES_PER_SECOND: u64 = 12_500_000;
const DELAY: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
struct Block(Cid);

impl Payload for Block {
    fn cid(&self) -> &Cid {
        &self.0
    }

    fn len(&self) -> usize {
        BLOCK_BYTES
    }
}

struct Node {
    exchange: Exchange<usize, Block>,
    store: BTreeSet<Cid>,
    session: Option<SessionId>,
    uplink_free_at: Instant,
    queued_bytes: [usize; NODES],
}

enum Event {
    Sent { from: usize, to: usize, bytes: usize },
    Arrived { from: usize, to: usize, message: Message<Block> },
}

struct Swarm {
    now: Instant,
    protocol: Protocol,
    nodes: Vec<Node>,
    /// The root, and the blocks that it links to.
    root: Cid,
    links: Vec<Cid>,
    events: BTreeMap<(Instant, u64), Event>,
    events_so_far: u64,
}

/// A round is [`BLOCKS`] blocks from one node to four, with Bitswap 1.2.
pub fn bitswap(rounds: u32) -> Box<dyn Any> {
    rounds_of(rounds, Protocol::V1_2)
}

/// The same with the leaves protocol, which Watchfire nodes speak to each other.
pub fn leaves(rounds: u32) -> Box<dyn Any> {
    rounds_of(rounds, Protocol::Leaves)
}

fn rounds_of(rounds: u32, protocol: Protocol) -> Box<dyn Any> {
    let mut last = None;
    for round in 0..rounds {
        let mut swarm = Swarm::new(u64::from(round), protocol);
        swarm.run();
        last = Some(swarm);
    }
    Box::new(last)
}

fn cid(codec: Codec, number: u64) -> Cid {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    digest[8..16].copy_from_slice(&number.to_le_bytes());
    Cid::v1(codec, Multihash::Sha2_256(digest))
}

impl Swarm {
    fn new(round: u64, protocol: Protocol) -> Self {
        let first = round * (BLOCKS + 1);
        let root = cid(Codec::DAG_PB, first);
        let links: Vec<Cid> = (1..=BLOCKS).map(|n| cid(Codec::RAW, first + n)).collect();
        let node = |id| Node {
            exchange: Exchange::new(Limits::default(), id + 1),
            store: BTreeSet::new(),
            session: None,
            uplink_free_at: Instant::ZERO,
            queued_bytes: [0; NODES],
        };
        let nodes = (0..NODES as u64).map(node).collect();
        let (events, now) = (BTreeMap::new(), Instant::ZERO);
        let mut swarm = Swarm { now, protocol, nodes, root, links, events, events_so_far: 0 };
        swarm.seed();
        swarm.connect_all();
        swarm.want_all();
        swarm
    }

    /// The first node has everything, and all have the root, as after the first block of a page.
    fn seed(&mut self) {
        for (id, node) in self.nodes.iter_mut().enumerate() {
            let links = if id == 0 { &self.links[..] } else { &[] };
            for cid in std::iter::once(&self.root).chain(links) {
                node.store.insert(cid.clone());
                node.exchange.handle_stored(self.now, cid, BLOCK_BYTES);
            }
        }
    }

    fn connect_all(&mut self) {
        for one in 0..NODES {
            for other in (0..NODES).filter(|other| *other != one) {
                let exchange = &mut self.nodes[one].exchange;
                exchange.handle_connected(self.now, other, self.protocol);
                exchange.handle_writable(self.now, other, SEND_BUFFER_BYTES);
            }
        }
    }

    fn want_all(&mut self) {
        for node in &mut self.nodes[1..] {
            let session = node.exchange.start_session(self.now);
            node.session = Some(session);
            if self.protocol == Protocol::Leaves {
                let has = |cid: &Cid| (cid.clone(), false);
                let links = self.links.iter().map(has).collect();
                node.exchange.open_node(self.now, session, &self.root, links);
            }
            let len = u32::try_from(BLOCK_BYTES).ok();
            let wants = self.links.iter().map(|cid| Want { len, ..Want::new(cid.clone()) });
            node.exchange.want(self.now, session, wants);
        }
        (0..NODES).for_each(|id| self.drain(id));
    }

    fn run(&mut self) {
        while !self.is_done() {
            let wakes = self.nodes.iter().map(|node| node.exchange.next_wake());
            let wake = wakes.zip(0..).filter_map(|(at, id)| Some((at?.max(self.now), id))).min();
            let event_at = self.events.first_key_value().map(|((at, _), _)| *at);
            match (wake, event_at) {
                (Some((at, id)), event_at) if event_at.is_none_or(|event_at| at < event_at) => {
                    self.now = at;
                    self.nodes[id].exchange.handle_tick(at);
                    self.drain(id);
                }
                (_, Some(at)) => {
                    self.now = at;
                    let (_, event) = self.events.pop_first().expect("there is an event");
                    self.handle_event(event);
                }
                (_, None) => panic!("the swarm stands still"),
            }
        }
    }

    fn is_done(&self) -> bool {
        let missing =
            |node: &Node| node.session.map_or(0, |session| node.exchange.missing(session));
        self.nodes.iter().all(|node| missing(node) == 0)
    }

    fn handle_event(&mut self, event: Event) {
        let id = match event {
            Event::Sent { from, to, bytes } => {
                let node = &mut self.nodes[from];
                node.queued_bytes[to] -= bytes;
                let room = SEND_BUFFER_BYTES.saturating_sub(node.queued_bytes[to]);
                node.exchange.handle_writable(self.now, to, room);
                from
            }
            Event::Arrived { from, to, message } => {
                self.nodes[to].exchange.handle_message(self.now, from, message);
                to
            }
        };
        self.drain(id);
    }

    fn drain(&mut self, id: usize) {
        while let Some(output) = self.nodes[id].exchange.poll_output() {
            self.handle_output(id, output);
        }
    }

    fn handle_output(&mut self, id: usize, output: Output<usize, Block>) {
        let node = &mut self.nodes[id];
        match output {
            Output::Send { peer, message } => self.send(id, peer, message),
            Output::Lookup { cid } => {
                let len = node.store.contains(&cid).then_some(BLOCK_BYTES);
                node.exchange.handle_lookup(self.now, &cid, len);
            }
            Output::ListLinks { node: list } => {
                let has = |cid: &Cid| (cid.clone(), node.store.contains(cid));
                let links = (list == self.root).then(|| self.links.iter().map(has).collect());
                node.exchange.handle_links(self.now, &list, links);
            }
            Output::Read { peer, cid } => {
                let block = node.store.contains(&cid).then(|| Block(cid.clone()));
                node.exchange.handle_read(self.now, peer, &cid, block);
            }
            Output::BlockReceived { block: Block(cid), .. } => {
                node.exchange.handle_stored(self.now, &cid, BLOCK_BYTES);
                node.store.insert(cid);
            }
            Output::FindProviders { session, .. } => {
                node.exchange.handle_providers(self.now, session, &[]);
            }
            Output::Answered { .. } => {}
            Output::DropPeer { peer, reason } => panic!("node {id} dropped {peer}: {reason}"),
        }
    }

    /// The messages of a node share its uplink, one after the other.
    fn send(&mut self, from: usize, to: usize, message: Message<Block>) {
        let bytes = message.encoded_len(self.protocol).max(1);
        let node = &mut self.nodes[from];
        let nanos = bytes as u64 * 1_000_000_000 / UPLINK_BYTES_PER_SECOND;
        node.uplink_free_at = node.uplink_free_at.max(self.now) + Duration::from_nanos(nanos);
        node.queued_bytes[to] += bytes;
        let sent_at = node.uplink_free_at;
        self.schedule(sent_at, Event::Sent { from, to, bytes });
        self.schedule(sent_at + DELAY, Event::Arrived { from, to, message });
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.events.insert((at, self.events_so_far), event);
        self.events_so_far += 1;
    }
}
