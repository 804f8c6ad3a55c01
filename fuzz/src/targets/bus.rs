use watchfire_bus::frame::{Decoder, FrameError};

/// Largest message that the decoder is told to take.
const MESSAGE_BYTES_MAX: usize = 1000;

/// What one process says to another: the same is heard however it is cut (the first byte says into
/// pieces of which size), what is heard is written as it came, and what is held meanwhile is in
/// proportion to what arrived.
pub fn bus_frames(bytes: &[u8]) {
    let Some((piece_bytes, said)) = bytes.split_first() else { return };
    let at_once = heard(said, said.len().max(1));
    assert_eq!(heard(said, usize::from(*piece_bytes).max(1)), at_once);
    assert!(said.starts_with(&at_once.0));
}

/// The frames that were heard, written again, and how it ended.
fn heard(said: &[u8], piece_bytes: usize) -> (Vec<u8>, Result<(), FrameError>) {
    let (mut decoder, mut heard) = (Decoder::new(MESSAGE_BYTES_MAX), Vec::new());
    for mut piece in said.chunks(piece_bytes) {
        loop {
            match decoder.decode(&mut piece) {
                Ok(Some(frame)) => frame.encode(&mut heard),
                Ok(None) => break,
                Err(error) => return (heard, Err(error)),
            }
        }
        assert!(piece.is_empty(), "bytes were left over");
        assert!(decoder.held_bytes() <= 64 + 2 * said.len());
    }
    (heard, Ok(()))
}
