//! The same protocol as others speak it: tungstenite at the other end.

use std::net::TcpStream;

use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame, coding::CloseCode};
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Message, WebSocket};

use super::support::{DEADLINE, House};

type Peer = WebSocket<MaybeTlsStream<TcpStream>>;

fn connect(house: &House) -> Peer {
    let url = format!("ws://{}/echo", house.edge.local_addr());
    let (peer, _) = tungstenite::connect(url).unwrap();
    if let MaybeTlsStream::Plain(stream) = peer.get_ref() {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
    }
    peer
}

/// Dice for a test: the same throws each time (SplitMix64).
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.throw(256) as u8).collect()
    }

    fn text(&mut self, len: usize) -> String {
        let alphabet = ['a', 'ß', '€', '🔥', ' ', '\u{0}'];
        (0..len).map(|_| alphabet[self.throw(alphabet.len())]).collect()
    }
}

/// Send a message in fragments of random lengths, with pings between them.
fn send_in_fragments(peer: &mut Peer, dice: &mut Dice, opcode: Data, payload: &[u8]) -> usize {
    let mut rest = payload;
    let mut opcode = opcode;
    let mut pings = 0;
    loop {
        let len = dice.throw(rest.len() + 1);
        let (part, after) = rest.split_at(len);
        let is_last = after.is_empty() && dice.throw(2) == 0;
        let frame = Frame::message(part.to_vec(), OpCode::Data(opcode), is_last);
        peer.write(Message::Frame(frame)).unwrap();
        if is_last {
            peer.flush().unwrap();
            return pings;
        }
        if dice.throw(3) == 0 {
            pings += 1;
            peer.write(Message::Ping(dice.bytes(4).into())).unwrap();
        }
        (rest, opcode) = (after, Data::Continue);
    }
}

#[test]
fn messages_in_random_fragments_come_back_whole() {
    let house = House::open();
    let mut peer = connect(&house);
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let len = dice.throw(2000);
        let (opcode, message) = match dice.throw(2) {
            0 => (Data::Text, Message::text(dice.text(len))),
            _ => (Data::Binary, Message::binary(dice.bytes(len))),
        };
        let payload = message.clone().into_data();
        let mut pings = send_in_fragments(&mut peer, &mut dice, opcode, &payload);
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
    assert_eq!(house.totals().partial_bytes_now, 0);
}

#[test]
fn messages_of_megabytes_come_back_whole() {
    let house = House::open();
    let mut peer = connect(&house);
    let mut dice = Dice(7);
    for len in [1, 65_521, 65_522, 65_536, 1_000_000, 8_000_000] {
        let message = Message::binary(dice.bytes(len));
        peer.send(message.clone()).unwrap();
        assert!(peer.read().unwrap() == message, "{len} bytes");
    }
    assert_eq!(house.totals().partial_bytes_now, 0);
    house.eventually("every queue is empty", |totals| totals.queued_bytes_now == 0);
}

#[test]
fn a_private_close_code_is_echoed() {
    let house = House::open();
    let mut peer = connect(&house);
    let frame = CloseFrame { code: CloseCode::Library(4001), reason: "enough".into() };
    peer.close(Some(frame)).unwrap();
    match peer.read().unwrap() {
        Message::Close(Some(answer)) => assert_eq!(answer.code, CloseCode::Library(4001)),
        other => panic!("{other:?} instead of a close"),
    }
    assert!(matches!(peer.read(), Err(tungstenite::Error::ConnectionClosed)));
}
