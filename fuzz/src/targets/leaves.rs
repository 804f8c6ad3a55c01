use ::bitswap::leaves;
use bytes::Bytes;

/// What is said by lists of leaves is said in as many bytes as promised, and heard as it was meant.
pub fn leaf_frames(bytes: &[u8]) {
    let Ok(mut heard) = leaves::decode(&Bytes::copy_from_slice(bytes)) else { return };
    (heard.passed_over, heard.passed_over_blocks) = (0, 0);
    let said = leaves::encode(&heard);
    assert_eq!(said.iter().map(Bytes::len).sum::<usize>(), leaves::encoded_len(&heard));
    let said = said.concat();
    let (_, start) = content::varint::decode(&said).expect("a frame begins with its length");
    assert_eq!(leaves::decode(&said[start..].to_vec().into()), Ok(heard));
}
