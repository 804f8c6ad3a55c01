use watchfire_sockets::frame::{DecodeError, Decoder, Incoming};
use watchfire_sockets::{HeadSlots, RequestHead};

/// Largest message that the decoder is told to take.
const MESSAGE_BYTES_MAX: usize = 1000;

/// What a client sends over a websocket: the same is heard however it is cut (the first byte says
/// into pieces of which size), and what is held meanwhile is in proportion to what arrived.
pub fn websocket_frames(bytes: &[u8]) {
    let Some((piece_bytes, sent)) = bytes.split_first() else { return };
    let at_once = heard(sent, sent.len().max(1));
    let in_pieces = heard(sent, usize::from(*piece_bytes).max(1));
    assert_eq!(in_pieces, at_once);
}

fn heard(sent: &[u8], piece_bytes: usize) -> (Vec<String>, Option<DecodeError>) {
    let mut sent = sent.to_vec();
    let (mut decoder, mut heard, mut arrived) = (Decoder::default(), Vec::new(), 0);
    for mut piece in sent.chunks_mut(piece_bytes) {
        arrived += piece.len();
        loop {
            match decoder.decode(&mut piece, MESSAGE_BYTES_MAX) {
                Ok(Some(close @ Incoming::Close(_))) => {
                    heard.push(format!("{close:?}"));
                    return (heard, None);
                }
                Ok(Some(incoming)) => {
                    check_len(&incoming);
                    heard.push(format!("{incoming:?}"));
                }
                Ok(None) => break,
                Err(error) => return (heard, Some(error)),
            }
        }
        assert!(piece.is_empty(), "bytes were left over");
        assert!(decoder.held_bytes() <= 1024 + 2 * arrived.min(MESSAGE_BYTES_MAX));
    }
    (heard, None)
}

fn check_len(incoming: &Incoming<'_>) {
    let (len, max) = match incoming {
        Incoming::Text(text) => (text.len(), MESSAGE_BYTES_MAX),
        Incoming::Binary(bytes) => (bytes.len(), MESSAGE_BYTES_MAX),
        Incoming::Ping(payload) => (payload.len(), 125),
        Incoming::Pong | Incoming::Close(_) => (0, 0),
    };
    assert!(len <= max);
}

/// The head of a request: what is whole says the same without what follows it, and is not whole
/// without its last byte.
pub fn request_head(bytes: &[u8]) {
    let Some((said, len)) = parsed(bytes) else { return };
    assert_eq!(parsed(&bytes[..len]), Some((said, len)));
    assert_eq!(parsed(&bytes[..len - 1]), None);
    let mut slots = HeadSlots::default();
    assert!(RequestHead::parse(&bytes[..len - 1], &mut slots).is_ok());
}

fn parsed(bytes: &[u8]) -> Option<(String, usize)> {
    let mut slots = HeadSlots::default();
    let (head, len) = RequestHead::parse(bytes, &mut slots).ok()??;
    let names = ["host", "origin", "Cookie", "sec-websocket-protocol", "X-Forwarded-For"];
    let values: Vec<_> = names.iter().map(|name| head.headers(name).collect::<Vec<_>>()).collect();
    let first: Vec<_> = names.iter().map(|name| head.header(name)).collect();
    let key = head.websocket_key();
    let target = (head.method(), head.path(), head.query());
    Some((format!("{target:?} {values:?} {first:?} {key:?}"), len))
}
