//! One case of each class of the Autobahn test suite, for a quick answer: `make test` runs the
//! suite's own cases (`tests/outside/autobahn`), except those with sizes, which
//! `tungstenite_peer.rs` has.

use super::support::{Frame, TestServer, masked};

/// How the bytes of a case are cut into writes: whole, by 997, and byte by byte.
const CUTS: [usize; 3] = [usize::MAX, 997, 1];

/// Sends frames to an echo handler. The client must receive `expected`, and then a close with `code`.
fn run(server: &TestServer, name: &str, sent: &[Vec<u8>], expected: &[Frame], code: Option<u16>) {
    let bytes = sent.concat();
    for cut in CUTS.into_iter().filter(|cut| *cut > 1 || bytes.len() < 1_000) {
        let mut client = server.connect();
        client.upgrade("/echo");
        // The server may have closed before the last write.
        bytes.chunks(cut).for_each(|piece| client.send_ignoring_errors(piece));
        for frame in expected {
            assert!(client.read_frame() == *frame, "case {name}, in pieces of {cut}");
        }
        assert_eq!(client.read_close(), code, "case {name}, in pieces of {cut}");
    }
}

fn text(text: &str) -> Vec<u8> {
    masked(0x81, text.as_bytes())
}

fn close(code: u16) -> Vec<u8> {
    masked(0x88, &code.to_be_bytes())
}

#[test]
fn frames_of_all_lengths_and_fragments_are_echoed() {
    let server = TestServer::open();
    for len in [0, 125, 126, 127, 128, 65_535, 65_536] {
        let stars = "*".repeat(len);
        let sent = [text(&stars), masked(0x82, stars.as_bytes()), close(1000)];
        let expected = [Frame::text(&stars), Frame::binary(stars.as_bytes())];
        run(&server, "1", &sent, &expected, Some(1000));
    }
    let fragments =
        [masked(0x01, b"one"), masked(0x89, b"ping"), masked(0x00, b""), masked(0x80, b"two")];
    let sent = [&fragments[..], &[masked(0x8a, b"unsolicited"), close(1000)]].concat();
    run(&server, "2 and 5", &sent, &[Frame::pong(b"ping"), Frame::text("onetwo")], Some(1000));
}

#[test]
fn a_violation_closes_with_its_code_after_the_echo_of_earlier_messages() {
    let server = TestServer::open();
    let table: &[(&str, Vec<u8>, u16)] = &[
        ("2.5", masked(0x89, &[0xfe; 126]), 1002),
        ("3.2", masked(0xa1, b"x"), 1002),
        ("4.1.3", masked(0x85, b""), 1002),
        ("5.1", masked(0x09, b"fragment"), 1002),
        ("5.9", masked(0x80, b"nothing to continue"), 1002),
        ("5.18", [masked(0x01, b"a"), text("b")].concat(), 1002),
        ("6.3", masked(0x81, b"\xce\xba\xed\xa0\x80edited"), 1007),
        ("6.4.1, unfinished", [masked(0x01, b"a"), masked(0x00, b"\xf4\x90")].concat(), 1007),
        ("7.3.2", masked(0x88, b"\x03"), 1002),
        ("7.5.1", masked(0x88, b"\x03\xe8\xed\xa0\x80"), 1007),
        ("7.9.5", close(1006), 1002),
    ];
    for (name, violation, code) in table {
        let sent = [text("before"), violation.clone(), text("after")];
        run(&server, name, &sent, &[Frame::text("before")], Some(*code));
    }
}

#[test]
fn a_close_is_answered_with_its_code_or_without_one_and_ends_the_messages() {
    let server = TestServer::open();
    for code in [1000, 1007, 1011, 3000, 4999] {
        run(&server, "7.7", &[close(code), text("after")], &[], Some(code));
    }
    run(&server, "7.1.5", &[masked(0x01, b"a"), close(1000), masked(0x80, b"b")], &[], Some(1000));
    run(&server, "7.3.1", &[masked(0x88, b"")], &[], None);
}
