//! Inputs and outputs as data.

use serde_json::{Map, Value, json};
use watchfire_bitswap::{
    Exchange, Limits, Message, Misbehaviour, Output, Payload, Presence, Protocol, SessionId, Want,
    WantEntry, WantKind,
};
use watchfire_content::{Cid, Codec, Multihash};
use watchfire_types::Instant;

/// A block that has only a number and a length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeBlock {
    pub number: u8,
    pub len: usize,
    cid: Cid,
}

impl FakeBlock {
    pub fn new(number: u8, len: usize) -> Self {
        FakeBlock { number, len, cid: cid(number) }
    }
}

impl Payload for FakeBlock {
    fn cid(&self) -> &Cid {
        &self.cid
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// The CID of block `number`: raw, with a digest of 32 times that byte.
pub fn cid(number: u8) -> Cid {
    Cid::v1(Codec::RAW, Multihash::Sha2_256([number; 32]))
}

pub fn number(cid: &Cid) -> u8 {
    cid.hash().digest()[0]
}

pub type FakeOutput = Output<u64, FakeBlock>;

#[derive(Clone, Debug)]
pub enum Input {
    Connected(u64),
    Disconnected(u64),
    Received(u64, Message<FakeBlock>),
    Writable(u64, usize),
    Acknowledged(u64, u64),
    Stored(u8, usize),
    LookupResult(u8, Option<usize>),
    Read(u64, u8, Option<FakeBlock>),
    Want(Vec<(u8, Option<u32>, u8)>),
    CancelWants(Vec<u8>),
    Urgent(Vec<u8>),
    Providers(Vec<u64>),
    Tick,
}

/// An exchange, with its inputs and outputs so far.
pub struct Record {
    pub exchange: Exchange<u64, FakeBlock>,
    session: SessionId,
    seed: u64,
    limits: Value,
    steps: Vec<Value>,
}

impl Record {
    /// Sets whether the session will want more blocks. It is not a step of the record.
    pub fn set_growing(&mut self, now: Instant, is_growing: bool) {
        self.exchange.set_growing(now, self.session, is_growing);
    }

    /// `changed_limits` has the limits that differ from the defaults.
    pub fn new(seed: u64, limits: Limits, changed_limits: Value) -> Self {
        let mut exchange = Exchange::new(limits, seed);
        let session = exchange.start_session(Instant::ZERO);
        assert_eq!(exchange.poll_output(), None);
        Record { exchange, session, seed, limits: changed_limits, steps: Vec::new() }
    }

    pub fn handle_input(&mut self, now: Instant, input: Input) -> Vec<FakeOutput> {
        let data_in = input_as_data(&input);
        let (exchange, session) = (&mut self.exchange, self.session);
        match input {
            Input::Connected(peer) => exchange.handle_connected(now, peer, Protocol::V1_2),
            Input::Disconnected(peer) => exchange.handle_disconnected(now, peer),
            Input::Received(peer, message) => exchange.handle_message(now, peer, message),
            Input::Writable(peer, room) => exchange.handle_writable(now, peer, room),
            Input::Acknowledged(peer, messages) => {
                exchange.handle_acknowledged(now, peer, messages)
            }
            Input::Stored(block, len) => exchange.handle_stored(now, &cid(block), len),
            Input::LookupResult(block, len) => exchange.handle_lookup(now, &cid(block), len),
            Input::Read(peer, block, read) => exchange.handle_read(now, peer, &cid(block), read),
            Input::Want(wants) => {
                let want = |(block, len, urgency)| Want { cid: cid(block), len, urgency };
                exchange.want(now, session, wants.into_iter().map(want));
            }
            Input::CancelWants(blocks) => {
                let cids: Vec<Cid> = blocks.into_iter().map(cid).collect();
                exchange.cancel_wants(now, session, &cids);
            }
            Input::Urgent(blocks) => {
                let cids: Vec<Cid> = blocks.into_iter().map(cid).collect();
                exchange.set_urgent(now, &cids);
            }
            Input::Providers(peers) => exchange.handle_providers(now, session, &peers),
            Input::Tick => exchange.handle_tick(now),
        }
        let outputs: Vec<FakeOutput> = std::iter::from_fn(|| exchange.poll_output()).collect();
        let data_out: Vec<Value> = outputs.iter().map(output_as_data).collect();
        let wake = exchange.next_wake().map(Instant::as_nanos);
        let at = now.as_nanos();
        self.steps.push(json!({ "at": at, "input": data_in, "outputs": data_out, "wake": wake }));
        outputs
    }

    /// The text of the file, with one step per line.
    pub fn to_text(&self, about: &str) -> String {
        let head = json!({ "about": about, "seed": self.seed.to_string(), "limits": self.limits });
        let head = head.to_string();
        let steps: Vec<String> = self.steps.iter().map(|step| format!("    {step}")).collect();
        let head = head.trim_end_matches('}');
        format!("{head},\n  \"steps\": [\n{}\n  ]\n}}\n", steps.join(",\n"))
    }
}

fn input_as_data(input: &Input) -> Value {
    match input {
        Input::Connected(peer) => json!({ "kind": "connected", "peer": peer }),
        Input::Disconnected(peer) => json!({ "kind": "disconnected", "peer": peer }),
        Input::Received(peer, message) => {
            json!({ "kind": "message", "peer": peer, "message": message_as_data(message) })
        }
        Input::Writable(peer, room) => json!({ "kind": "writable", "peer": peer, "room": room }),
        Input::Acknowledged(peer, messages) => {
            json!({ "kind": "acknowledged", "peer": peer, "messages": messages })
        }
        Input::Stored(block, len) => json!({ "kind": "stored", "block": block, "bytes": len }),
        Input::LookupResult(block, len) => {
            json!({ "kind": "lookup-result", "block": block, "bytes": len })
        }
        Input::Read(peer, block, read) => {
            let len = read.as_ref().map(|read| read.len);
            json!({ "kind": "read", "peer": peer, "block": block, "bytes": len })
        }
        Input::Want(wants) => {
            let want = |(block, len, urgency): &(u8, Option<u32>, u8)| json!({ "block": block, "bytes": len, "urgency": urgency });
            json!({ "kind": "want", "wants": wants.iter().map(want).collect::<Vec<_>>() })
        }
        Input::CancelWants(blocks) => json!({ "kind": "cancel-wants", "blocks": blocks }),
        Input::Urgent(blocks) => json!({ "kind": "set-urgent", "blocks": blocks }),
        Input::Providers(peers) => json!({ "kind": "providers", "peers": peers }),
        Input::Tick => json!({ "kind": "tick" }),
    }
}

fn output_as_data(output: &FakeOutput) -> Value {
    match output {
        Output::Send { peer, message } => {
            json!({ "kind": "send", "peer": peer, "message": message_as_data(message) })
        }
        Output::Lookup { cid } => json!({ "kind": "lookup", "block": number(cid) }),
        Output::ListLinks { .. } => panic!("no peer speaks the leaves protocol"),
        Output::Read { peer, cid } => json!({ "kind": "read", "peer": peer, "block": number(cid) }),
        Output::BlockReceived { block, from, .. } => {
            json!({ "kind": "block-received", "block": block.number, "from": from })
        }
        Output::FindProviders { cid, .. } => {
            json!({ "kind": "find-providers", "block": number(cid) })
        }
        Output::Answered { .. } => panic!("no scenario asks a question"),
        Output::DropPeer { peer, reason } => {
            let reason = match reason {
                Misbehaviour::ForgedBlocks => "forged-blocks",
                Misbehaviour::Flooded => "flooded",
                Misbehaviour::Stalled => "stalled",
                Misbehaviour::LeafOutOfRange => panic!("no peer speaks the leaves protocol"),
            };
            json!({ "kind": "drop-peer", "peer": peer, "reason": reason })
        }
    }
}

/// Default values are left out.
fn message_as_data(message: &Message<FakeBlock>) -> Value {
    let mut data = Map::new();
    let mut add = |name: &str, of: Vec<Value>| {
        if !of.is_empty() {
            data.insert(name.into(), of.into());
        }
    };
    add("wants", message.wants.iter().map(want_as_data).collect());
    let block = |block: &FakeBlock| json!({ "block": block.number, "bytes": block.len });
    add("blocks", message.blocks.iter().map(block).collect());
    let presence = |of: &Presence| json!({ "block": number(&of.cid), "have": of.has_block });
    add("presences", message.presences.iter().map(presence).collect());
    if message.full {
        data.insert("full".into(), true.into());
    }
    if message.pending_bytes > 0 {
        data.insert("pending".into(), message.pending_bytes.into());
    }
    if message.skipped_blocks > 0 {
        data.insert("skipped_blocks".into(), message.skipped_blocks.into());
    }
    data.into()
}

/// The kind of a want that requests an answer is "block" or "have"; otherwise "block?" or "have?".
fn want_as_data(want: &WantEntry) -> Value {
    let kind = match (want.cancel, want.kind, want.send_dont_have) {
        (true, ..) => "cancel",
        (false, WantKind::Block, true) => "block",
        (false, WantKind::Block, false) => "block?",
        (false, WantKind::Have, true) => "have",
        (false, WantKind::Have, false) => "have?",
    };
    json!({ "block": number(&want.cid), "kind": kind, "priority": want.priority })
}
