use bytes::Bytes;
use watchfire_bitswap::leaves;

/// A frame that decodes is encoded in the computed length, and decodes to the same message.
pub fn leaf_frames(bytes: &[u8]) {
    let Ok(mut message) = leaves::decode(&Bytes::copy_from_slice(bytes)) else { return };
    (message.skipped_entries, message.skipped_blocks) = (0, 0);
    let encoded = leaves::encode(&message);
    assert_eq!(encoded.iter().map(Bytes::len).sum::<usize>(), leaves::encoded_len(&message));
    let encoded = encoded.concat();
    let (_, start) =
        watchfire_content::varint::decode(&encoded).expect("a frame begins with its length");
    assert_eq!(leaves::decode(&encoded[start..].to_vec().into()), Ok(message));
}
