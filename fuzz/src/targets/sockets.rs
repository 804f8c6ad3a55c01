use watchfire_sockets::frame::{DecodeError, Decoder, Incoming};
use watchfire_sockets::{HeadSlots, ProxyHeader, RequestHead};

/// The decoder's limit for a message.
const MESSAGE_BYTES_MAX: usize = 1000;

/// A stream in pieces of any size (the first byte) decodes to the same messages. The decoder holds
/// at most 1 KiB and twice the bytes that arrived, up to twice the limit.
pub fn websocket_frames(bytes: &[u8]) {
    let Some((piece_bytes, stream)) = bytes.split_first() else { return };
    let at_once = decoded(stream, stream.len().max(1));
    let in_pieces = decoded(stream, usize::from(*piece_bytes).max(1));
    assert_eq!(in_pieces, at_once);
}

fn decoded(stream: &[u8], piece_bytes: usize) -> (Vec<String>, Option<DecodeError>) {
    let mut stream = stream.to_vec();
    let (mut decoder, mut frames, mut arrived) = (Decoder::default(), Vec::new(), 0);
    for mut piece in stream.chunks_mut(piece_bytes) {
        arrived += piece.len();
        loop {
            match decoder.decode(&mut piece, MESSAGE_BYTES_MAX) {
                Ok(Some(close @ Incoming::Close(_))) => {
                    frames.push(format!("{close:?}"));
                    return (frames, None);
                }
                Ok(Some(incoming)) => {
                    check_len(&incoming);
                    frames.push(format!("{incoming:?}"));
                }
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        assert!(piece.is_empty(), "the decoder must take all bytes");
        assert!(decoder.buffered_bytes() <= 1024 + 2 * arrived.min(MESSAGE_BYTES_MAX));
    }
    (frames, None)
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

/// A complete head parses the same without the bytes after it. Without its last byte, the head
/// is incomplete.
pub fn request_head(bytes: &[u8]) {
    let Some((head, len)) = parsed(bytes) else { return };
    assert_eq!(parsed(&bytes[..len]), Some((head, len)));
    assert_eq!(parsed(&bytes[..len - 1]), None);
    let mut slots = HeadSlots::default();
    assert!(RequestHead::parse(&bytes[..len - 1], &mut slots).is_ok());
}

/// A header is within its bound and parses the same without the bytes after it. Each shorter part of
/// it is incomplete. Bytes that are invalid stay invalid when more follow.
pub fn proxy_header(bytes: &[u8]) {
    match ProxyHeader::parse(bytes) {
        Ok(None) => assert!(bytes.len() < ProxyHeader::BYTES_MAX),
        Ok(Some((header, len))) => {
            assert!(len <= ProxyHeader::BYTES_MAX);
            assert_eq!(ProxyHeader::parse(&bytes[..len]), Ok(Some((header, len))));
            for cut in [0, 5, 12, len / 2, len - 1] {
                assert_eq!(ProxyHeader::parse(&bytes[..cut.min(len - 1)]), Ok(None));
            }
        }
        Err(error) => {
            assert_eq!(ProxyHeader::parse(&[bytes, b"\r\n"].concat()), Err(error));
        }
    }
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
