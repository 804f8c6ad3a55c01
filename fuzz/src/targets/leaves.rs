use bytes::Bytes;
use watchfire_bitswap::leaves;

/// A frame that decodes is encoded in the computed length, and decodes to the same message.
pub fn leaf_frames(bytes: &[u8]) {
    let Ok(mut heard) = leaves::decode(&Bytes::copy_from_slice(bytes)) else { return };
    (heard.skipped_entries, heard.skipped_blocks) = (0, 0);
    let said = leaves::encode(&heard);
    assert_eq!(said.iter().map(Bytes::len).sum::<usize>(), leaves::encoded_len(&heard));
    let said = said.concat();
    let (_, start) =
        watchfire_content::varint::decode(&said).expect("a frame begins with its length");
    assert_eq!(leaves::decode(&said[start..].to_vec().into()), Ok(heard));
}
