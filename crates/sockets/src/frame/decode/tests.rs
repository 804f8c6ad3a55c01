use super::*;

const MAX: usize = 1000;

/// A client's frame.
fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x12, 0x34, 0x56, 0x78];
    let mut out = vec![first];
    match payload.len() {
        len @ 0..=125 => out.push(0x80 | len as u8),
        len => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
    }
    out.extend_from_slice(&mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

/// Decodes bytes that arrive in pieces of `step`. Also returns the bytes that the decoder holds.
fn decode(bytes: &[u8], step: usize) -> (Vec<String>, Option<DecodeError>, usize) {
    let mut bytes = bytes.to_vec();
    let mut decoder = Decoder::default();
    let mut received = Vec::new();
    for mut piece in bytes.chunks_mut(step) {
        loop {
            match decoder.decode(&mut piece, MAX) {
                Ok(Some(incoming)) => received.push(format!("{incoming:?}")),
                Ok(None) => break,
                Err(error) => return (received, Some(error), decoder.buffered_bytes()),
            }
        }
        assert!(piece.is_empty());
    }
    (received, None, decoder.buffered_bytes())
}

#[test]
fn the_result_does_not_depend_on_how_the_bytes_are_cut() {
    let conversation = [
        masked(0x81, b"hello"),
        masked(0x81, b""),
        masked(0x01, "κόσ".as_bytes()),
        masked(0x89, b"between"),
        masked(0x00, b""),
        masked(0x8a, b""),
        masked(0x80, "με".as_bytes()),
        masked(0x82, &[7; 300]),
        masked(0x02, &[1; 200]),
        masked(0x80, &[2; 200]),
        masked(0x89, &[9; 125]),
        masked(0x88, b"\x0f\xa1bye"),
    ]
    .concat();
    let expected = decode(&conversation, conversation.len());
    assert_eq!(expected.0.len(), 9, "{expected:?}");
    assert_eq!(expected.0[2], r#"Ping([98, 101, 116, 119, 101, 101, 110])"#);
    assert_eq!(expected.0[4], r#"Text("κόσμε")"#);
    assert_eq!(expected.0[8], "Close(Some(4001))");
    assert_eq!((expected.1, expected.2), (None, 0));
    for step in 1..conversation.len() {
        assert_eq!(decode(&conversation, step), expected, "in pieces of {step}");
    }
}

#[test]
fn a_frame_that_arrives_whole_is_borrowed() {
    let mut bytes = [masked(0x81, b"hello"), masked(0x82, b"bytes")].concat();
    let mut input = &mut bytes[..];
    let mut decoder = Decoder::default();
    for _ in 0..2 {
        assert!(matches!(
            decoder.decode(&mut input, MAX),
            Ok(Some(
                Incoming::Text(Cow::Borrowed("hello")) | Incoming::Binary(Cow::Borrowed(b"bytes"))
            ))
        ));
        assert_eq!(decoder.buffered_bytes(), 0);
    }
}

#[test]
fn a_character_split_over_fragments_is_reassembled() {
    let euro = "€".as_bytes();
    let bytes = [masked(0x01, &euro[..1]), masked(0x00, &euro[1..2]), masked(0x80, &euro[2..])];
    assert_eq!(decode(&bytes.concat(), 1000).0, [r#"Text("€")"#]);
}

#[test]
fn invalid_utf_8_fails_before_its_message_ends() {
    let bytes = masked(0x01, b"abc\xff");
    assert_eq!(decode(&bytes, 1000).1, Some(DecodeError::Utf8));
    // The second byte identifies a surrogate.
    let bytes = masked(0x01, b"\xed\xa0");
    assert_eq!(decode(&bytes, 1000).1, Some(DecodeError::Utf8));
    // Also in an incomplete frame.
    let mut bytes = masked(0x81, b"\xff and a lot more");
    bytes.truncate(8);
    assert_eq!(decode(&bytes, 1).1, Some(DecodeError::Utf8));
    // Also an incomplete character at the end.
    assert_eq!(decode(&masked(0x81, b"\xe2\x82"), 1).1, Some(DecodeError::Utf8));
}

#[test]
fn a_protocol_violation_is_refused_with_1002() {
    let long_ping = [vec![0x89, 0xfe, 0, 126, 1, 2, 3, 4], vec![0; 126]].concat();
    let table: &[(&str, &[u8])] = &[
        ("unmasked", b"\x81\x05hello"),
        ("reserved bit 1", b"\xc1"),
        ("reserved bit 2", b"\xa1"),
        ("reserved bit 3", b"\x91"),
        ("opcode 3", b"\x83"),
        ("opcode 11", b"\x8b"),
        ("fragmented ping", b"\x09"),
        ("long ping", &long_ping),
        ("continuation without a message", &masked(0x80, b"x")),
        ("message in a message", &[masked(0x01, b"a"), masked(0x81, b"b")].concat()),
        ("close code of one byte", &masked(0x88, b"\x03")),
        ("close 1005", &masked(0x88, b"\x03\xed")),
        ("length's highest bit", b"\x82\xff\x80\0\0\0\0\0\0\0\x01\x02\x03\x04"),
    ];
    for (name, bytes) in table {
        for step in [1, 1000] {
            let (_, error, _) = decode(bytes, step);
            assert_eq!(error.map(DecodeError::close_code), Some(1002), "{name}");
        }
    }
    assert_eq!(decode(&masked(0x88, b"\x03\xe8\xff"), 1000).1, Some(DecodeError::Utf8));
}

#[test]
fn a_message_over_the_limit_is_refused_by_its_announced_length() {
    let announced = b"\x82\xff\x00\x00\x00\x00\x05\xf5\xe1\x00\x01\x02\x03\x04";
    let (_, error, held) = decode(announced, 1000);
    assert_eq!(error, Some(DecodeError::TooBig { len: 100_000_000, max: MAX }));
    assert_eq!(held, 0);
    let fragments = [masked(0x02, &[0; 600]), masked(0x80, &[0; 401])].concat();
    assert_eq!(decode(&fragments, 100).1, Some(DecodeError::TooBig { len: 1001, max: MAX }));
    let fragments = [masked(0x02, &[0; 600]), masked(0x80, &[0; 400])].concat();
    assert_eq!(decode(&fragments, 100).1, None);
}

#[test]
fn an_announced_length_reserves_nothing() {
    let mut bytes = b"\x82\xff\x00\x00\x00\x00\x00\x98\x96\x80\x01\x02\x03\x04abc".to_vec();
    let mut decoder = Decoder::default();
    assert_eq!(decoder.decode(&mut &mut bytes[..], 10_000_000), Ok(None));
    assert!(decoder.buffered_bytes() < 300, "{}", decoder.buffered_bytes());
}

#[test]
fn a_decoder_is_one_pointer() {
    assert_eq!(mem::size_of::<Decoder>(), mem::size_of::<usize>());
}

#[test]
fn unmasking_is_the_same_at_every_length() {
    let plain: Vec<u8> = (0..100).collect();
    let mask = [1, 2, 3, 4];
    for len in 0..plain.len() {
        let mut whole = plain[..len].to_vec();
        unmask(&mut whole, mask);
        let slow: Vec<u8> =
            plain[..len].iter().zip(mask.iter().cycle()).map(|(b, m)| b ^ m).collect();
        assert_eq!(whole, slow);
    }
}
