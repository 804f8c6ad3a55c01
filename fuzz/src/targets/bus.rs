use watchfire_cluster::bus::frame::{Decoder, FrameError};

/// The decoder's limit for a message.
const MESSAGE_BYTES_MAX: usize = 1000;

/// A stream in pieces of any size (the first byte) decodes to the same frames. Their encoding is a
/// prefix of the stream. The decoder buffers at most 64 bytes and twice the stream's length.
pub fn bus_frames(bytes: &[u8]) {
    let Some((piece_bytes, stream)) = bytes.split_first() else { return };
    let at_once = reencoded(stream, stream.len().max(1));
    assert_eq!(reencoded(stream, usize::from(*piece_bytes).max(1)), at_once);
    assert!(stream.starts_with(&at_once.0));
}

/// The decoded frames, encoded again, and the result of decoding.
fn reencoded(stream: &[u8], piece_bytes: usize) -> (Vec<u8>, Result<(), FrameError>) {
    let (mut decoder, mut encoded) = (Decoder::new(MESSAGE_BYTES_MAX), Vec::new());
    for mut piece in stream.chunks(piece_bytes) {
        loop {
            match decoder.decode(&mut piece) {
                Ok(Some(frame)) => frame.encode(&mut encoded),
                Ok(None) => break,
                Err(error) => return (encoded, Err(error)),
            }
        }
        assert!(piece.is_empty(), "the decoder must take all bytes");
        assert!(decoder.buffered_bytes() <= 64 + 2 * stream.len());
    }
    (encoded, Ok(()))
}
