//! Messages that another implementation encoded.

use serde_json::Value;
use watchfire_bitswap::Protocol;
use watchfire_bitswap::message::{FrameReader, decode, encode_framed};

const VECTORS: &str = include_str!("../../../../../tests/vectors/bitswap_messages.json");

fn bytes(hex: &str) -> Vec<u8> {
    assert!(hex.len().is_multiple_of(2));
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two hex digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn messages_of_boxo_survive_decoding_and_encoding() {
    let vectors: Value = serde_json::from_str(VECTORS).expect("the vectors are JSON");
    let messages = vectors["messages"].as_array().expect("there are messages");
    assert!(messages.len() >= 5);
    for vector in messages {
        let name = &vector["name"];
        for (key, protocol) in [("bitswap_1_2", Protocol::V1_2), ("bitswap_1_0", Protocol::V1_0)] {
            let Some(hex) = vector[key].as_str() else { continue };
            let mut reader = FrameReader::default();
            // The frame is complete with its last byte, and not before.
            let frame = bytes(hex).into_iter().find_map(|byte| {
                reader.push(&[byte]);
                reader.next_frame().expect("a frame")
            });
            assert!(!reader.is_inside_frame(), "{name}: bytes are left over");
            let message = decode(&frame.expect("a whole frame")).expect("a message");
            let ours = encode_framed(&message, protocol);
            reader.push(&ours);
            let again = reader.next_frame().expect("a frame").expect("a whole frame");
            let again = decode(&again).expect("a message");
            if protocol == Protocol::V1_2 {
                assert_eq!(again, message, "{name}");
                assert_eq!(ours.len(), hex.len() / 2, "{name}: the length differs");
            }
            // Encodings for older protocols omit parts that these do not have.
            assert_eq!(again.blocks, message.blocks, "{name} {key}");
        }
    }
}
