use watchfire_content::protobuf::{Value, encode_field};
use watchfire_content::{Block, varint};

use watchfire_types::TraceContext;

use super::leaf_frame;
use super::{Message, Presence, TRACE_FIELD, WantEntry, WantKind};
use crate::{Payload, Protocol};

/// Encodes a message, without a length before it.
///
/// Protocols before [`Protocol::V1_2`] omit presences and want-haves. [`Protocol::V1_0`] also omits
/// the prefixes of blocks. For [`Protocol::Leaves`] use [`leaves::encode`](crate::leaves::encode).
pub fn encode(message: &Message<Block>, protocol: Protocol) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(message.encoded_len(protocol));
    encode_into(message, protocol, &mut bytes);
    bytes
}

/// Encodes a message, with its length before it.
pub fn encode_framed(message: &Message<Block>, protocol: Protocol) -> Vec<u8> {
    let len = message.encoded_len(protocol);
    let mut bytes = Vec::with_capacity(varint::encoded_len(len as u64) + len);
    varint::encode(len as u64, &mut bytes);
    encode_into(message, protocol, &mut bytes);
    bytes
}

/// Bytes of the field with the span: its key, its length and the text.
const TRACE_LEN: usize = varint::encoded_len(TRACE_FIELD << 3 | 2) + 1 + TraceContext::TEXT_BYTES;

impl<B: Payload> Message<B> {
    /// Bytes that [`encode`] or [`leaves::encode`](crate::leaves::encode) produces.
    pub fn encoded_len(&self, protocol: Protocol) -> usize {
        if protocol == Protocol::Leaves {
            return leaf_frame::encoded_len(self);
        }
        let wantlist = wantlist_len(self, protocol);
        let blocks = self.blocks.iter().map(|block| block_len(block, protocol)).sum::<usize>();
        let mut len = bytes_field_len(wantlist) + blocks;
        if protocol.has_presences() {
            len += self.presences.iter().map(Presence::encoded_len).sum::<usize>();
            len += varint_field_len(pending_bytes(self));
            len += self.trace.map_or(0, |_| TRACE_LEN);
        }
        len
    }
}

impl WantEntry {
    /// Most bytes that the entry takes in a message.
    pub fn encoded_len(&self) -> usize {
        bytes_field_len(entry_len(self))
    }
}

impl Presence {
    /// Bytes that the presence takes in a message.
    pub fn encoded_len(&self) -> usize {
        bytes_field_len(presence_len(self))
    }
}

/// Bytes that a block takes in a message.
pub(crate) fn block_len(block: &impl Payload, protocol: Protocol) -> usize {
    let data = block.len();
    match protocol {
        Protocol::V1_0 => bytes_field_len(data),
        _ => {
            let prefix = block.cid().prefix().encode(data).len();
            let data = if data == 0 { 0 } else { bytes_field_len(data) };
            bytes_field_len(bytes_field_len(prefix) + data)
        }
    }
}

fn encode_into(message: &Message<Block>, protocol: Protocol, bytes: &mut Vec<u8>) {
    assert!(protocol != Protocol::Leaves, "messages about lists are encoded as frames");
    // Older kubo fails without a wantlist, even if it is empty.
    start_field(1, wantlist_len(message, protocol), bytes);
    for want in message.wants.iter().filter(|want| is_known(want, protocol)) {
        start_field(1, entry_len(want), bytes);
        encode_entry(want, bytes);
    }
    encode_number(2, message.full.into(), bytes);
    for block in &message.blocks {
        let data = block.bytes();
        if protocol == Protocol::V1_0 {
            encode_field(2, Value::Bytes(data), bytes);
            continue;
        }
        let prefix = block.cid().prefix().encode(data.len());
        let data_len = if data.is_empty() { 0 } else { bytes_field_len(data.len()) };
        start_field(3, bytes_field_len(prefix.len()) + data_len, bytes);
        encode_field(1, Value::Bytes(&prefix), bytes);
        if !data.is_empty() {
            encode_field(2, Value::Bytes(data), bytes);
        }
    }
    if !protocol.has_presences() {
        return;
    }
    for presence in &message.presences {
        start_field(4, presence_len(presence), bytes);
        start_field(1, presence.cid.encoded_len(), bytes);
        presence.cid.encode_into(bytes);
        encode_number(2, (!presence.has_block).into(), bytes);
    }
    encode_number(5, pending_bytes(message), bytes);
    if let Some(trace) = message.trace {
        encode_field(TRACE_FIELD, Value::Bytes(trace.to_string().as_bytes()), bytes);
    }
}

/// Whether a peer of this protocol understands the want.
fn is_known(want: &WantEntry, protocol: Protocol) -> bool {
    protocol.has_presences() || want.kind == WantKind::Block || want.cancel
}

fn wantlist_len<B>(message: &Message<B>, protocol: Protocol) -> usize {
    let wants = message.wants.iter().filter(|want| is_known(want, protocol));
    wants.map(WantEntry::encoded_len).sum::<usize>() + varint_field_len(message.full.into())
}

fn entry_len(want: &WantEntry) -> usize {
    bytes_field_len(want.cid.encoded_len())
        + varint_field_len(i64::from(want.priority) as u64)
        + varint_field_len(want.cancel.into())
        + varint_field_len((want.kind == WantKind::Have).into())
        + varint_field_len(want.send_dont_have.into())
}

fn encode_entry(want: &WantEntry, bytes: &mut Vec<u8>) {
    start_field(1, want.cid.encoded_len(), bytes);
    want.cid.encode_into(bytes);
    encode_number(2, i64::from(want.priority) as u64, bytes);
    encode_number(3, want.cancel.into(), bytes);
    encode_number(4, (want.kind == WantKind::Have).into(), bytes);
    encode_number(5, want.send_dont_have.into(), bytes);
}

fn presence_len(presence: &Presence) -> usize {
    bytes_field_len(presence.cid.encoded_len()) + varint_field_len((!presence.has_block).into())
}

/// The pending bytes, within the range of the schema's signed number.
fn pending_bytes<B>(message: &Message<B>) -> u64 {
    u64::from(message.pending_bytes).min(i32::MAX as u64)
}

/// Writes the key and the length of a field of bytes.
fn start_field(field: u64, len: usize, bytes: &mut Vec<u8>) {
    varint::encode(field << 3 | 2, bytes);
    varint::encode(len as u64, bytes);
}

/// Writes a number, unless it is zero.
fn encode_number(field: u64, value: u64, bytes: &mut Vec<u8>) {
    if value != 0 {
        encode_field(field, Value::Varint(value), bytes);
    }
}

const fn bytes_field_len(len: usize) -> usize {
    1 + varint::encoded_len(len as u64) + len
}

const fn varint_field_len(value: u64) -> usize {
    if value == 0 { 0 } else { 1 + varint::encoded_len(value) }
}
