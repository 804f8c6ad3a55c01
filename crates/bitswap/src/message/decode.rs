use bytes::Bytes;
use watchfire_content::protobuf::{Fields, Value};
use watchfire_content::{Block, Cid, CidError, Codec, HashFunction, Prefix, Version};

use watchfire_types::TraceContext;

use super::{
    ENTRIES_MAX, MESSAGE_BYTES_MAX, Message, MessageError, Presence, TRACE_FIELD, WantEntry,
    WantKind,
};

/// Reads a message that fills `bytes`, without the length in front of it, and hashes its blocks.
///
/// A block of at least an eighth of the message shares its bytes. Smaller ones are copied, because
/// each would keep the whole message in memory. Fields of later versions are skipped.
pub fn decode(bytes: &Bytes) -> Result<Message<Block>, MessageError> {
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(MessageError::TooLong { len: bytes.len() as u64, max: MESSAGE_BYTES_MAX });
    }
    let mut message = Message::default();
    for field in Fields::new(bytes) {
        match field? {
            (1, Value::Bytes(wantlist)) => decode_wantlist(wantlist, &mut message)?,
            (2, Value::Bytes(data)) => push_block(&mut message, PREFIX_1_0, bytes, data)?,
            (3, Value::Bytes(block)) => decode_block(block, bytes, &mut message)?,
            (4, Value::Bytes(presence)) => decode_presence(presence, &mut message)?,
            // A negative number of bytes counts as zero.
            (5, Value::Varint(pending)) => {
                message.pending_bytes = u32::try_from(pending as i32).unwrap_or(0);
            }
            // Everything but a valid text counts as none.
            (TRACE_FIELD, Value::Bytes(text)) => message.trace = TraceContext::parse(text),
            (field @ 0..=5, _) => return Err(MessageError::Field { field, of: "a message" }),
            _ => {}
        }
    }
    Ok(message)
}

/// The prefix of a block of Bitswap 1.0, which carries none.
const PREFIX_1_0: Prefix =
    Prefix { version: Version::V0, codec: Codec::DAG_PB, hash: HashFunction::Sha2_256 };

fn decode_wantlist(bytes: &[u8], message: &mut Message<Block>) -> Result<(), MessageError> {
    for field in Fields::new(bytes) {
        match field? {
            (1, Value::Bytes(_)) if message.wants.len() >= ENTRIES_MAX => {
                message.skipped_entries += 1
            }
            (1, Value::Bytes(entry)) => match decode_entry(entry)? {
                Some(want) => message.wants.push(want),
                None => message.skipped_entries += 1,
            },
            (2, Value::Varint(full)) => message.full = full != 0,
            (field @ 0..=2, _) => return Err(MessageError::Field { field, of: "a wantlist" }),
            _ => {}
        }
    }
    Ok(())
}

/// Decodes an entry; `None` if its CID has an unknown hash function.
fn decode_entry(bytes: &[u8]) -> Result<Option<WantEntry>, MessageError> {
    let of = "an entry";
    let mut name = None;
    let (mut priority, mut cancel, mut kind, mut send_dont_have) =
        (0, false, WantKind::Block, false);
    for field in Fields::new(bytes) {
        match field? {
            (1, Value::Bytes(cid)) => name = Some(cid),
            (2, Value::Varint(value)) => priority = value as i32,
            (3, Value::Varint(value)) => cancel = value != 0,
            (4, Value::Varint(1)) => kind = WantKind::Have,
            (4, Value::Varint(_)) => kind = WantKind::Block,
            (5, Value::Varint(value)) => send_dont_have = value != 0,
            (field @ 0..=5, _) => return Err(MessageError::Field { field, of }),
            _ => {}
        }
    }
    let cid = decode_cid(name.ok_or(MessageError::MissingCid { of })?)?;
    Ok(cid.map(|cid| WantEntry { cid, priority, cancel, kind, send_dont_have }))
}

fn decode_block(
    block: &[u8],
    whole: &Bytes,
    message: &mut Message<Block>,
) -> Result<(), MessageError> {
    let of = "a block";
    let mut prefix = None;
    let mut data: &[u8] = &[];
    for field in Fields::new(block) {
        match field? {
            (1, Value::Bytes(bytes)) => prefix = Some(bytes),
            (2, Value::Bytes(bytes)) => data = bytes,
            (field @ 0..=2, _) => return Err(MessageError::Field { field, of }),
            _ => {}
        }
    }
    match Prefix::decode(prefix.ok_or(MessageError::MissingCid { of })?) {
        Ok(prefix) => push_block(message, prefix, whole, data),
        Err(CidError::Hash { .. }) => {
            message.skipped_blocks += 1;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn push_block(
    message: &mut Message<Block>,
    prefix: Prefix,
    whole: &Bytes,
    data: &[u8],
) -> Result<(), MessageError> {
    if message.blocks.len() >= ENTRIES_MAX {
        message.skipped_blocks += 1;
        return Ok(());
    }
    let is_small = data.len() < whole.len() / 8;
    let bytes = if is_small { Bytes::copy_from_slice(data) } else { whole.slice_ref(data) };
    match Block::from_prefix(prefix, bytes)? {
        Some(block) => message.blocks.push(block),
        None => message.skipped_blocks += 1,
    }
    Ok(())
}

fn decode_presence(bytes: &[u8], message: &mut Message<Block>) -> Result<(), MessageError> {
    let of = "a presence";
    if message.presences.len() >= ENTRIES_MAX {
        message.skipped_entries += 1;
        return Ok(());
    }
    let mut name = None;
    let mut has_block = true;
    for field in Fields::new(bytes) {
        match field? {
            (1, Value::Bytes(cid)) => name = Some(cid),
            (2, Value::Varint(value)) => has_block = value == 0,
            (field @ 0..=2, _) => return Err(MessageError::Field { field, of }),
            _ => {}
        }
    }
    match decode_cid(name.ok_or(MessageError::MissingCid { of })?)? {
        Some(cid) => message.presences.push(Presence { cid, has_block }),
        None => message.skipped_entries += 1,
    }
    Ok(())
}

/// Decodes a CID; `None` if its hash function is unknown.
fn decode_cid(bytes: &[u8]) -> Result<Option<Cid>, MessageError> {
    match Cid::decode(bytes) {
        Ok(cid) => Ok(Some(cid)),
        Err(CidError::Hash { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use watchfire_content::protobuf::encode_field;

    use super::*;

    const SPAN: &[u8] = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn decoded(field: Value<'_>) -> Message<Block> {
        let mut bytes = Vec::new();
        encode_field(TRACE_FIELD, field, &mut bytes);
        decode(&bytes.into()).expect("a message with an unknown field")
    }

    #[test]
    fn a_span_is_read_and_everything_else_in_its_field_is_ignored() {
        assert_eq!(decoded(Value::Bytes(SPAN)).trace, TraceContext::parse(SPAN));
        assert!(decoded(Value::Bytes(SPAN)).trace.is_some());
        for garbage in [&b""[..], b"00-", &SPAN[1..], &[0xff; 55], &[b'0'; 100_000]] {
            assert_eq!(decoded(Value::Bytes(garbage)), Message::default());
        }
        assert_eq!(decoded(Value::Varint(7)), Message::default());
        assert_eq!(decoded(Value::Fixed32(7)), Message::default());
    }

    #[test]
    fn a_span_alone_makes_a_message() {
        let message = decoded(Value::Bytes(SPAN));
        assert!(!message.is_empty() && message.has_bitswap());
    }
}
