use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use watchfire_bitswap::message::{FrameReader, MESSAGE_BYTES_MAX, decode, encode, encode_framed};
use watchfire_bitswap::{Message, Presence, Protocol, WantEntry, WantKind};
use watchfire_content::{Block, Cid, Codec, Multihash, Version};
use watchfire_types::TraceContext;

fn cid() -> impl Strategy<Value = Cid> {
    let codec = prop_oneof![Just(Codec::RAW), Just(Codec::DAG_PB)];
    prop_oneof![
        (codec, any::<[u8; 32]>())
            .prop_map(|(codec, digest)| Cid::v1(codec, Multihash::Sha2_256(digest))),
        any::<[u8; 32]>().prop_map(Cid::v0),
        vec(any::<u8>(), 0..40).prop_map(|bytes| {
            let hash = Multihash::identity(&bytes).expect("it is short");
            Cid::v1(Codec::RAW, hash)
        }),
    ]
}

fn want() -> impl Strategy<Value = WantEntry> {
    let kind = prop_oneof![Just(WantKind::Block), Just(WantKind::Have)];
    (cid(), any::<i32>(), any::<bool>(), kind, any::<bool>()).prop_map(
        |(cid, priority, cancel, kind, send_dont_have)| WantEntry {
            cid,
            priority,
            cancel,
            kind,
            send_dont_have,
        },
    )
}

fn block() -> impl Strategy<Value = Block> {
    (vec(any::<u8>(), 0..300), any::<bool>(), any::<bool>()).prop_map(|(bytes, is_node, is_old)| {
        let version = if is_old { Version::V0 } else { Version::V1 };
        let bytes = Bytes::from(bytes);
        let block = if is_node { Block::dag_pb(version, bytes) } else { Block::raw(bytes) };
        block.expect("it is short")
    })
}

fn message() -> impl Strategy<Value = Message> {
    let presence = (cid(), any::<bool>()).prop_map(|(cid, has_block)| Presence { cid, has_block });
    let pending_bytes = 0..=i32::MAX as u32;
    let trace = prop::option::of(trace());
    let lists = (vec(want(), 0..20), vec(block(), 0..8), vec(presence, 0..20));
    (any::<bool>(), lists, pending_bytes, trace).prop_map(
        |(full, (wants, blocks, presences), pending_bytes, trace)| Message {
            full,
            wants,
            blocks,
            presences,
            pending_bytes,
            trace,
            ..Message::default()
        },
    )
}

fn trace() -> impl Strategy<Value = TraceContext> {
    (1..=u128::MAX, 1..=u64::MAX, any::<bool>()).prop_map(|(trace_id, span_id, is_sampled)| {
        let (trace_id, span_id) = (trace_id.to_be_bytes(), span_id.to_be_bytes());
        TraceContext { trace_id, span_id, is_sampled }
    })
}

/// The frames of a stream that arrives in pieces of `piece_bytes`.
fn read(stream: &[u8], piece_bytes: usize) -> Vec<Bytes> {
    let (mut reader, mut frames) = (FrameReader::default(), Vec::new());
    for piece in stream.chunks(piece_bytes) {
        reader.push(piece);
        while let Some(frame) = reader.next_frame().expect("a frame") {
            frames.push(frame);
        }
    }
    assert!(!reader.is_inside_frame());
    frames
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_message_survives_encoding_in_the_computed_length(message in message()) {
        let bytes = encode(&message, Protocol::V1_2);
        prop_assert_eq!(bytes.len(), message.encoded_len(Protocol::V1_2));
        prop_assert_eq!(decode(&bytes.into()), Ok(message));
    }

    #[test]
    fn older_peers_receive_only_what_they_understand(message in message()) {
        let bytes = encode(&message, Protocol::V1_1);
        prop_assert_eq!(bytes.len(), message.encoded_len(Protocol::V1_1));
        let read = decode(&bytes.into()).expect("an encoded message is valid");
        let is_understood = |want: &&WantEntry| want.kind == WantKind::Block || want.cancel;
        prop_assert!(read.wants.iter().eq(message.wants.iter().filter(is_understood)));
        prop_assert!(read.presences.is_empty());
        prop_assert_eq!(read.blocks, message.blocks);
    }

    #[test]
    fn a_stream_decodes_to_the_same_messages_in_any_pieces(
        messages in vec(message(), 0..4),
        piece_bytes in 1..5000usize,
    ) {
        let framed = |message| encode_framed(message, Protocol::V1_2);
        let stream: Vec<u8> = messages.iter().flat_map(framed).collect();
        let read: Vec<Message> =
            read(&stream, piece_bytes).iter().map(|frame| decode(frame).expect("a message")).collect();
        prop_assert_eq!(read, messages);
    }

    #[test]
    fn a_damaged_message_is_rejected_or_decodes_to_another_one(
        message in message(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encode(&message, Protocol::V1_2);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        if let Ok(read) = decode(&bytes.into()) {
            let read = Message { skipped_entries: 0, skipped_blocks: 0, ..read };
            let again = encode(&read, Protocol::V1_2);
            prop_assert!(again.len() <= MESSAGE_BYTES_MAX);
            prop_assert_eq!(decode(&again.into()), Ok(read));
        }
    }
}
