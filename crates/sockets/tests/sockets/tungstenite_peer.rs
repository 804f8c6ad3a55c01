//! Interoperability with the WebSocket client tungstenite.

use std::net::TcpStream;

use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame, coding::CloseCode};
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Message, WebSocket};
use watchfire_testkit::DEADLINE;
use watchfire_types::Rng;

use super::support::TestServer;

type Peer = WebSocket<MaybeTlsStream<TcpStream>>;

fn connect(server: &TestServer) -> Peer {
    let url = format!("ws://{}/echo", server.server.local_addr());
    let (peer, _) = tungstenite::connect(url).unwrap();
    if let MaybeTlsStream::Plain(stream) = peer.get_ref() {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
    }
    peer
}

fn random_bytes(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.index(256) as u8).collect()
}

fn random_text(rng: &mut Rng, len: usize) -> String {
    let alphabet = ['a', 'ß', '€', '🔥', ' ', '\u{0}'];
    (0..len).map(|_| alphabet[rng.index(alphabet.len())]).collect()
}

/// Sends a message in fragments of random lengths, with pings between them. Returns the number of
/// pings.
fn send_in_fragments(peer: &mut Peer, rng: &mut Rng, opcode: Data, payload: &[u8]) -> usize {
    let mut rest = payload;
    let mut opcode = opcode;
    let mut pings = 0;
    loop {
        let len = rng.index(rest.len() + 1);
        let (part, after) = rest.split_at(len);
        let is_last = after.is_empty() && rng.index(2) == 0;
        let frame = Frame::message(part.to_vec(), OpCode::Data(opcode), is_last);
        peer.write(Message::Frame(frame)).unwrap();
        if is_last {
            peer.flush().unwrap();
            return pings;
        }
        if rng.index(3) == 0 {
            pings += 1;
            peer.write(Message::Ping(random_bytes(rng, 4).into())).unwrap();
        }
        (rest, opcode) = (after, Data::Continue);
    }
}

#[test]
fn messages_in_random_fragments_are_echoed_whole() {
    let server = TestServer::open();
    let mut peer = connect(&server);
    for seed in 0..300 {
        let mut rng = Rng::from_seed(seed);
        let len = rng.index(2000);
        let (opcode, message) = match rng.index(2) {
            0 => (Data::Text, Message::text(random_text(&mut rng, len))),
            _ => (Data::Binary, Message::binary(random_bytes(&mut rng, len))),
        };
        let payload = message.clone().into_data();
        let mut pings = send_in_fragments(&mut peer, &mut rng, opcode, &payload);
        loop {
            match peer.read().unwrap() {
                Message::Pong(_) => pings -= 1,
                echo => {
                    assert_eq!(echo, message, "seed {seed}");
                    break;
                }
            }
        }
        assert_eq!(pings, 0, "seed {seed}");
    }
    assert_eq!(server.totals().partial_bytes_now, 0);
}

#[test]
fn messages_of_megabytes_are_echoed_whole() {
    let server = TestServer::open();
    let mut peer = connect(&server);
    let mut rng = Rng::from_seed(7);
    for len in [1, 65_521, 65_522, 65_536, 1_000_000, 8_000_000] {
        let message = Message::binary(random_bytes(&mut rng, len));
        peer.send(message.clone()).unwrap();
        assert!(peer.read().unwrap() == message, "{len} bytes");
    }
    assert_eq!(server.totals().partial_bytes_now, 0);
    server.eventually("every queue is empty", |totals| totals.queued_bytes_now == 0);
}

#[test]
fn a_private_close_code_is_echoed() {
    let server = TestServer::open();
    let mut peer = connect(&server);
    let frame = CloseFrame { code: CloseCode::Library(4001), reason: "enough".into() };
    peer.close(Some(frame)).unwrap();
    match peer.read().unwrap() {
        Message::Close(Some(answer)) => assert_eq!(answer.code, CloseCode::Library(4001)),
        other => panic!("{other:?} instead of a close"),
    }
    assert!(matches!(peer.read(), Err(tungstenite::Error::ConnectionClosed)));
}
