//! The cases of the Autobahn test suite, by their numbers: 1 framing, 2 pings, 3 reserved bits,
//! 4 opcodes, 5 fragmentation, 6 UTF-8, 7 closing, 9 sizes (smaller than there), 10 fragments.
//!
//! In each case a client exchanges frames with an echo handler: the frames that the client sends,
//! the frames that it must receive, and the end of the connection.

use super::support::{Client, Frame, TestServer, masked};

/// How a case's bytes are cut into writes.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// All frames in one write.
    Whole,
    /// One write per frame.
    Frames,
    /// Writes of this many bytes.
    Bytes(usize),
}

#[derive(Clone, Copy, Debug)]
enum End {
    /// The client closes with 1000, and the server answers with 1000.
    Clean,
    /// The server closes with this code.
    Fails(u16),
}

struct Case<'a> {
    name: &'a str,
    send: Vec<Vec<u8>>,
    cut: Cut,
    expected: Vec<Frame>,
    end: End,
}

impl Case<'_> {
    fn run(self, server: &TestServer) {
        let mut client = server.connect();
        client.upgrade("/echo");
        self.send_frames(&mut client);
        for (index, expected) in self.expected.iter().enumerate() {
            let received = client.read_frame();
            assert!(
                received == *expected,
                "case {}, frame {index}: {:?}",
                self.name,
                received.first
            );
        }
        match self.end {
            End::Clean => {
                client.send(masked(0x88, b"\x03\xe8"));
                assert_eq!(client.read_close(), Some(1000), "case {}", self.name);
            }
            End::Fails(code) => {
                assert_eq!(client.read_close(), Some(code), "case {}", self.name);
            }
        }
    }

    fn send_frames(&self, client: &mut Client) {
        let writes: Vec<Vec<u8>> = match self.cut {
            Cut::Whole => vec![self.send.concat()],
            Cut::Frames => self.send.clone(),
            Cut::Bytes(len) => self.send.concat().chunks(len).map(<[u8]>::to_vec).collect(),
        };
        for bytes in writes {
            match self.end {
                End::Clean => client.send(bytes),
                // The server may have closed before the last write.
                End::Fails(_) => client.send_ignoring_errors(bytes),
            }
        }
    }
}

fn run(server: &TestServer, cuts: &[(&str, Cut)], send: &[Vec<u8>], expected: &[Frame], end: End) {
    for &(name, cut) in cuts {
        Case { name, send: send.to_vec(), cut, expected: expected.to_vec(), end }.run(server);
    }
}

const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;
const CLOSE: u8 = 0x88;
const TEXT_BEGINS: u8 = 0x01;
const BINARY_BEGINS: u8 = 0x02;
const CONTINUATION: u8 = 0x00;
const LAST: u8 = 0x80;

fn text(text: &str) -> Vec<u8> {
    masked(TEXT, text.as_bytes())
}

fn ping(payload: &[u8]) -> Vec<u8> {
    masked(PING, payload)
}

#[test]
fn case_1_frames_of_all_lengths() {
    let server = TestServer::open();
    let lens = [0, 125, 126, 127, 128, 65535, 65536];
    for (index, len) in lens.into_iter().enumerate() {
        let stars = "*".repeat(len);
        let name = format!("1.1.{}", index + 1);
        run(&server, &[(&name, Cut::Whole)], &[text(&stars)], &[Frame::text(&stars)], End::Clean);
        let bytes = vec![0xfe; len];
        let name = format!("1.2.{}", index + 1);
        let sent = [masked(BINARY, &bytes)];
        run(&server, &[(&name, Cut::Whole)], &sent, &[Frame::binary(&bytes)], End::Clean);
    }
    let stars = "*".repeat(65536);
    let cut = Cut::Bytes(997);
    run(&server, &[("1.1.8", cut)], &[text(&stars)], &[Frame::text(&stars)], End::Clean);
    let bytes = [0xfe; 65536];
    let sent = [masked(BINARY, &bytes)];
    run(&server, &[("1.2.8", cut)], &sent, &[Frame::binary(&bytes)], End::Clean);
}

#[test]
fn case_2_pings_and_pongs() {
    let server = TestServer::open();
    let (whole, octets) = (Cut::Whole, Cut::Bytes(1));
    let table: [(&str, Cut, &[u8]); 5] = [
        ("2.1", whole, b""),
        ("2.2", whole, b"Hello, world!"),
        ("2.3", whole, b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff"),
        ("2.4", whole, &[0xfe; 125]),
        ("2.6", octets, &[0xfe; 125]),
    ];
    for (name, cut, payload) in table {
        run(&server, &[(name, cut)], &[ping(payload)], &[Frame::pong(payload)], End::Clean);
    }
    run(&server, &[("2.5", whole)], &[ping(&[0xfe; 126])], &[], End::Fails(1002));
    run(&server, &[("2.7", whole)], &[masked(PONG, b"")], &[], End::Clean);
    run(&server, &[("2.8", whole)], &[masked(PONG, b"unsolicited")], &[], End::Clean);
    let sent = [masked(PONG, b"unsolicited"), ping(b"ping")];
    run(&server, &[("2.9", whole)], &sent, &[Frame::pong(b"ping")], End::Clean);
    let payloads: Vec<String> = (0..10).map(|n| format!("payload-{n}")).collect();
    let sent: Vec<_> = payloads.iter().map(|payload| ping(payload.as_bytes())).collect();
    let replies: Vec<_> = payloads.iter().map(|payload| Frame::pong(payload.as_bytes())).collect();
    run(&server, &[("2.10", Cut::Frames), ("2.11", octets)], &sent, &replies, End::Clean);
}

#[test]
fn case_3_reserved_bits() {
    let server = TestServer::open();
    let hello = "Hello, world!";
    run(&server, &[("3.1", Cut::Whole)], &[masked(TEXT | 0x10, b"x")], &[], End::Fails(1002));
    let sent = [text(hello), masked(TEXT | 0x20, b"x"), ping(b"")];
    let cuts = [("3.2", Cut::Whole), ("3.3", Cut::Frames), ("3.4", Cut::Bytes(1))];
    run(&server, &cuts, &sent, &[Frame::text(hello)], End::Fails(1002));
    let table = [
        ("3.4b", TEXT | 0x40),
        ("3.5", BINARY | 0x50),
        ("3.6", PING | 0x60),
        ("3.7", CLOSE | 0x70),
    ];
    for (name, first) in table {
        run(&server, &[(name, Cut::Whole)], &[masked(first, b"")], &[], End::Fails(1002));
    }
}

#[test]
fn case_4_reserved_opcodes() {
    let server = TestServer::open();
    for (class, opcodes) in [("4.1", 3..=7u8), ("4.2", 11..=15)] {
        for (index, opcode) in opcodes.enumerate() {
            let name = format!("{class}.{}", index + 1);
            let bad = masked(0x80 | opcode, if index == 0 { b"" } else { b"payload" });
            run(&server, &[(&name, Cut::Whole)], std::slice::from_ref(&bad), &[], End::Fails(1002));
            let sent = [text("before"), bad, ping(b"")];
            let cuts = [(name.as_str(), Cut::Frames), (name.as_str(), Cut::Bytes(1))];
            run(&server, &cuts, &sent, &[Frame::text("before")], End::Fails(1002));
        }
    }
}

#[test]
fn case_5_fragmentation() {
    let server = TestServer::open();
    let all = |names: [&'static str; 3]| {
        [(names[0], Cut::Whole), (names[1], Cut::Frames), (names[2], Cut::Bytes(1))]
    };
    let begin = masked(TEXT_BEGINS, b"fragment1");
    let middle = |payload: &[u8]| masked(CONTINUATION, payload);
    let last = masked(LAST, b"fragment2");
    let whole = Frame::text("fragment1fragment2");

    let sent = [masked(0x09, b"fragment1"), last.clone()];
    run(&server, &[("5.1", Cut::Whole)], &sent, &[], End::Fails(1002));
    let sent = [masked(0x0a, b"fragment1"), last.clone()];
    run(&server, &[("5.2", Cut::Whole)], &sent, &[], End::Fails(1002));

    let sent = [begin.clone(), last.clone()];
    run(&server, &all(["5.3", "5.4", "5.5"]), &sent, std::slice::from_ref(&whole), End::Clean);
    let sent = [begin.clone(), ping(b"pongme"), last.clone()];
    let replies = [Frame::pong(b"pongme"), whole.clone()];
    run(&server, &all(["5.6", "5.7", "5.8"]), &sent, &replies, End::Clean);

    let sent = [masked(LAST, b"nothing to continue"), text("after")];
    run(&server, &all(["5.9", "5.10", "5.11"]), &sent, &[], End::Fails(1002));
    let sent = [middle(b"nothing to continue"), text("after")];
    run(&server, &all(["5.12", "5.13", "5.14"]), &sent, &[], End::Fails(1002));
    let sent = [begin.clone(), last.clone(), middle(b"nothing"), text("after")];
    run(&server, &[("5.15", Cut::Whole)], &sent, std::slice::from_ref(&whole), End::Fails(1002));
    let sent = [middle(b"fragment1"), begin.clone(), last.clone()];
    run(&server, &[("5.16", Cut::Whole)], &sent, &[], End::Fails(1002));
    let sent = [masked(LAST, b"fragment1"), begin.clone(), last.clone()];
    run(&server, &[("5.17", Cut::Whole)], &sent, &[], End::Fails(1002));
    let sent = [begin.clone(), text("fragment2")];
    run(&server, &[("5.18", Cut::Whole)], &sent, &[], End::Fails(1002));

    let sent = [
        begin,
        middle(b"fragment2"),
        ping(b"pongme 1"),
        middle(b"fragment3"),
        middle(b"fragment4"),
        ping(b"pongme 2"),
        masked(LAST, b"fragment5"),
    ];
    let replies = [
        Frame::pong(b"pongme 1"),
        Frame::pong(b"pongme 2"),
        Frame::text("fragment1fragment2fragment3fragment4fragment5"),
    ];
    run(&server, &all(["5.19", "5.19b", "5.20"]), &sent, &replies, End::Clean);
}

/// Valid sequences of category 6.
const VALID_UTF8: &[(&str, &[u8])] = &[
    ("6.2", "Hello-µ@ßöäüàá-UTF-8!!".as_bytes()),
    ("6.5", "κόσμε".as_bytes()),
    ("6.6 first of each length", b"\x00\xc2\x80\xe0\xa0\x80\xf0\x90\x80\x80"),
    ("6.7 last of each length", b"\x7f\xdf\xbf\xef\xbf\xbf\xf4\x8f\xbf\xbf"),
    ("6.9 around the surrogates", b"\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbd"),
    ("6.22 noncharacters", b"\xef\xbf\xbe\xef\xbf\xbf\xf0\x9f\xbf\xbe\xf3\xbf\xbf\xbf"),
    ("6.23 specials", b"\xef\xbf\xb9\xef\xbf\xba\xef\xbf\xbb\xef\xbf\xbc\xef\xbf\xbd"),
];

/// Invalid sequences of category 6.
const INVALID_UTF8: &[(&str, &[u8])] = &[
    ("6.3", b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited"),
    ("6.8 five bytes", b"\xf8\x88\x80\x80\x80"),
    ("6.8 six bytes", b"\xfc\x84\x80\x80\x80\x80"),
    ("6.10 five bytes, last", b"\xfb\xbf\xbf\xbf\xbf"),
    ("6.10 six bytes, last", b"\xfd\xbf\xbf\xbf\xbf\xbf"),
    ("6.11 past the last character", b"\xf4\x90\x80\x80"),
    ("6.12 a lone continuation", b"\x80"),
    ("6.12 the last of them", b"\xbf"),
    ("6.12 two", b"\x80\xbf"),
    ("6.13 lone starts of two", b"\xc0 \xc1 \xde \xdf "),
    ("6.13 lone starts of three", b"\xe0 \xef "),
    ("6.13 lone starts of four", b"\xf0 \xf7 "),
    ("6.14 two without their last", b"\xc2"),
    ("6.14 three without their last", b"\xe0\xa0"),
    ("6.14 four without their last", b"\xf0\x90\x80"),
    ("6.15 cut ones in a row", b"\xc2\xe0\xa0\xf0\x90\x80"),
    ("6.16 impossible bytes", b"\xfe"),
    ("6.16 and the other", b"\xff"),
    ("6.17 overlong slash, two", b"\xc0\xaf"),
    ("6.17 overlong slash, three", b"\xe0\x80\xaf"),
    ("6.17 overlong slash, four", b"\xf0\x80\x80\xaf"),
    ("6.18 overlong maximum, two", b"\xc1\xbf"),
    ("6.18 overlong maximum, three", b"\xe0\x9f\xbf"),
    ("6.18 overlong maximum, four", b"\xf0\x8f\xbf\xbf"),
    ("6.19 overlong zero, two", b"\xc0\x80"),
    ("6.19 overlong zero, three", b"\xe0\x80\x80"),
    ("6.19 overlong zero, four", b"\xf0\x80\x80\x80"),
    ("6.20 surrogate d800", b"\xed\xa0\x80"),
    ("6.20 surrogate db7f", b"\xed\xad\xbf"),
    ("6.20 surrogate dbff", b"\xed\xaf\xbf"),
    ("6.20 surrogate dc00", b"\xed\xb0\x80"),
    ("6.20 surrogate dfff", b"\xed\xbf\xbf"),
    ("6.21 a pair of surrogates", b"\xed\xa0\x80\xed\xb0\x80"),
];

#[test]
fn case_6_utf_8() {
    let server = TestServer::open();
    let empty = [masked(TEXT_BEGINS, b""), masked(CONTINUATION, b""), masked(LAST, b"")];
    run(&server, &[("6.1.1", Cut::Whole)], &[text("")], &[Frame::text("")], End::Clean);
    run(&server, &[("6.1.2", Cut::Whole)], &empty, &[Frame::text("")], End::Clean);
    let middle = [masked(TEXT_BEGINS, b""), masked(CONTINUATION, b"middle"), masked(LAST, b"")];
    run(&server, &[("6.1.3", Cut::Whole)], &middle, &[Frame::text("middle")], End::Clean);

    let fragments = |bytes: &[u8]| {
        let mut frames: Vec<_> = bytes.iter().map(|byte| masked(CONTINUATION, &[*byte])).collect();
        frames.insert(0, masked(TEXT_BEGINS, b""));
        frames.push(masked(LAST, b""));
        frames
    };
    for &(name, bytes) in VALID_UTF8 {
        let replies = [Frame { first: TEXT, payload: bytes.to_vec() }];
        let cuts = [(name, Cut::Whole), (name, Cut::Bytes(1))];
        run(&server, &cuts, &[masked(TEXT, bytes)], &replies, End::Clean);
        run(&server, &cuts, &fragments(bytes), &replies, End::Clean);
    }
    for &(name, bytes) in INVALID_UTF8 {
        let cuts = [(name, Cut::Whole), (name, Cut::Bytes(1))];
        run(&server, &cuts, &[masked(TEXT, bytes)], &[], End::Fails(1007));
        run(&server, &cuts, &fragments(bytes), &[], End::Fails(1007));
    }
}

#[test]
fn case_6_4_invalid_utf_8_fails_before_its_message_ends() {
    let server = TestServer::open();
    let valid = "κόσμε".as_bytes();
    let past_the_end = b"\xf4\x90";
    // In fragments: the message is never finished.
    let unfinished = [masked(TEXT_BEGINS, valid), masked(CONTINUATION, past_the_end)];
    run(
        &server,
        &[("6.4.1", Cut::Whole), ("6.4.2", Cut::Frames)],
        &unfinished,
        &[],
        End::Fails(1007),
    );
    // In one frame: its end is never sent.
    let mut cut_short = masked(TEXT, &[valid, past_the_end, b"\x80\x80edited"].concat());
    cut_short.truncate(6 + valid.len() + past_the_end.len());
    let cuts = [("6.4.3", Cut::Whole), ("6.4.4", Cut::Bytes(1))];
    run(&server, &cuts, &[cut_short], &[], End::Fails(1007));
}

#[test]
fn case_7_closing() {
    let server = TestServer::open();
    let close = |payload: &[u8]| masked(CLOSE, payload);
    let normal = close(b"\x03\xe8");
    // Frames after a close are ignored.
    let large = "*".repeat(256 * 1024);
    let table = [
        ("7.1.1", vec![text("Hello"), normal.clone()], vec![Frame::text("Hello")]),
        ("7.1.2", vec![normal.clone(), normal.clone()], Vec::new()),
        ("7.1.3", vec![normal.clone(), ping(b"")], Vec::new()),
        ("7.1.4", vec![normal.clone(), text("Hello")], vec![]),
        ("7.1.5", vec![masked(TEXT_BEGINS, b"a"), normal.clone(), masked(LAST, b"b")], vec![]),
        (
            "7.1.6",
            vec![text(&large), text("Hello"), normal.clone(), ping(b"")],
            vec![Frame::text(&large), Frame::text("Hello")],
        ),
    ];
    for (name, sent, replies) in table {
        run(&server, &[(name, Cut::Whole)], &sent, &replies, End::Fails(1000));
    }

    let with = |code: u16, reason: &[u8]| close(&[&code.to_be_bytes(), reason].concat());
    run(&server, &[("7.3.2", Cut::Whole)], &[close(b"\x03")], &[], End::Fails(1002));
    run(&server, &[("7.3.3", Cut::Whole)], &[with(1000, b"")], &[], End::Fails(1000));
    run(&server, &[("7.3.4", Cut::Whole)], &[with(1000, b"Hello")], &[], End::Fails(1000));
    run(&server, &[("7.3.5", Cut::Whole)], &[with(1000, &[b'*'; 123])], &[], End::Fails(1000));
    run(&server, &[("7.3.6", Cut::Whole)], &[with(1000, &[b'*'; 124])], &[], End::Fails(1002));
    run(&server, &[("7.5.1", Cut::Whole)], &[with(1000, b"\xed\xa0\x80")], &[], End::Fails(1007));

    let valid = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999];
    for (index, code) in valid.into_iter().enumerate() {
        let name = format!("7.7.{}", index + 1);
        run(&server, &[(&name, Cut::Whole)], &[with(code, b"")], &[], End::Fails(code));
    }
    let invalid = [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535];
    for (index, code) in invalid.into_iter().enumerate() {
        let name = format!("7.9.{}", index + 1);
        run(&server, &[(&name, Cut::Whole)], &[with(code, b"")], &[], End::Fails(1002));
    }
}

#[test]
fn case_7_3_1_a_close_without_a_code_is_answered_without_one() {
    let server = TestServer::open();
    let mut client = server.connect();
    client.upgrade("/echo");
    client.send(masked(CLOSE, b""));
    assert_eq!(client.read_close(), None);
}

#[test]
fn case_9_large_messages_and_many() {
    let server = TestServer::open();
    for (index, len) in [65536, 256 * 1024, 1024 * 1024].into_iter().enumerate() {
        let stars = "*".repeat(len);
        let name = format!("9.1.{}", index + 1);
        run(&server, &[(&name, Cut::Whole)], &[text(&stars)], &[Frame::text(&stars)], End::Clean);
        let bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
        let name = format!("9.2.{}", index + 1);
        let sent = [masked(BINARY, &bytes)];
        run(&server, &[(&name, Cut::Whole)], &sent, &[Frame::binary(&bytes)], End::Clean);
    }
    let bytes: Vec<u8> = (0..1024 * 1024).map(|n| (n * 7) as u8).collect();
    for (name, len) in [("9.4.1", 64), ("9.4.3", 1024), ("9.4.6", 65536)] {
        let sent = fragments(BINARY_BEGINS, &bytes, len);
        run(&server, &[(name, Cut::Whole)], &sent, &[Frame::binary(&bytes)], End::Clean);
    }
    let stars = "*".repeat(1024 * 1024);
    for (name, len) in [("9.5.4", 512), ("9.5.6", 2048)] {
        let cut = Cut::Bytes(len);
        run(&server, &[(name, cut)], &[text(&stars)], &[Frame::text(&stars)], End::Clean);
    }
    for (name, len) in [("9.7.1", 0), ("9.7.2", 16), ("9.7.4", 256), ("9.7.6", 4096)] {
        // The client reads between batches; otherwise the server would close it as slow.
        let stars = "*".repeat(len);
        for _ in 0..10 {
            let sent = vec![text(&stars); 20];
            let replies = vec![Frame::text(&stars); 20];
            run(&server, &[(name, Cut::Frames)], &sent, &replies, End::Clean);
        }
    }
}

#[test]
fn case_10_1_1_a_text_in_fragments_of_1300() {
    let server = TestServer::open();
    let stars = "*".repeat(65536);
    let sent = fragments(TEXT_BEGINS, stars.as_bytes(), 1300);
    run(&server, &[("10.1.1", Cut::Whole)], &sent, &[Frame::text(&stars)], End::Clean);
}

fn fragments(first: u8, payload: &[u8], len: usize) -> Vec<Vec<u8>> {
    let mut frames: Vec<_> = payload
        .chunks(len)
        .enumerate()
        .map(|(index, part)| masked(if index == 0 { first } else { CONTINUATION }, part))
        .collect();
    frames.push(masked(LAST, b""));
    frames
}
