use bytes::Bytes;
use watchfire_bitswap::message::{FrameReader, MESSAGE_BYTES_MAX, decode, encode, encode_framed};
use watchfire_bitswap::{Protocol, WantEntry, WantKind};

/// A message that decodes is encoded in the computed length, and decodes to the same message. Older peers
/// receive only what they understand of it.
pub fn bitswap_message(bytes: &[u8]) {
    let Ok(mut message) = decode(&Bytes::copy_from_slice(bytes)) else { return };
    (message.skipped_entries, message.skipped_blocks) = (0, 0);
    let encoded = encode(&message, Protocol::V1_2);
    assert_eq!(encoded.len(), message.encoded_len(Protocol::V1_2));
    assert!(encoded.len() <= MESSAGE_BYTES_MAX);
    let mut reader = FrameReader::default();
    reader.push(&encode_framed(&message, Protocol::V1_2));
    assert_eq!(reader.next_frame(), Ok(Some(encoded.clone().into())));
    assert!(!reader.is_inside_frame());

    let encoded_old = encode(&message, Protocol::V1_1);
    assert_eq!(encoded_old.len(), message.encoded_len(Protocol::V1_1));
    let old = decode(&encoded_old.into()).expect("an encoded message is valid");
    let is_understood = |want: &&WantEntry| want.kind == WantKind::Block || want.cancel;
    assert!(old.wants.iter().eq(message.wants.iter().filter(is_understood)));
    assert!(old.presences.is_empty());
    assert_eq!(old.blocks, message.blocks);
    assert_eq!(decode(&encoded.into()), Ok(message));
}

/// A stream in pieces of any size (the first byte) decodes to the same frames.
pub fn bitswap_frames(bytes: &[u8]) {
    let Some((piece_bytes, stream)) = bytes.split_first() else { return };
    let at_once = frames(stream, stream.len().max(1));
    assert_eq!(frames(stream, usize::from(*piece_bytes).max(1)), at_once);
}

/// The frames of a stream, each after its length, and whether it ended with an error.
fn frames(stream: &[u8], piece_bytes: usize) -> (Vec<u8>, bool) {
    let (mut reader, mut frames) = (FrameReader::default(), Vec::new());
    for piece in stream.chunks(piece_bytes) {
        reader.push(piece);
        loop {
            match reader.next_frame() {
                Ok(Some(frame)) => {
                    assert!(frame.len() <= MESSAGE_BYTES_MAX);
                    frames.extend_from_slice(&(frame.len() as u32).to_le_bytes());
                    frames.extend_from_slice(&frame);
                }
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
    }
    (frames, false)
}
