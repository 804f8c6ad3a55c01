//! Questions whether a peer has a block, and lookups for some peers only.

use watchfire_bitswap::{
    Exchange, Limits, Message, Output, Presence, Protocol, WantEntry, WantKind,
};
use watchfire_content::Cid;
use watchfire_types::Instant;

use super::net::{FakeBlock, cid, fake_blocks};

const NOW: Instant = Instant::ZERO;

fn exchange(peers: &[usize], protocol: Protocol) -> Exchange<usize, FakeBlock> {
    let mut exchange = Exchange::new(Limits::default(), 1);
    for peer in peers {
        exchange.handle_connected(NOW, *peer, protocol);
        exchange.handle_writable(NOW, *peer, 1 << 20);
    }
    exchange
}

fn outputs(exchange: &mut Exchange<usize, FakeBlock>) -> Vec<Output<usize, FakeBlock>> {
    std::iter::from_fn(|| exchange.poll_output()).collect()
}

fn want(cid: &Cid, kind: WantKind) -> Message<FakeBlock> {
    let cid = cid.clone();
    let want = WantEntry { cid, priority: 1, cancel: false, kind, send_dont_have: true };
    Message { wants: vec![want], ..Message::default() }
}

fn presence(cid: &Cid, has_block: bool) -> Message<FakeBlock> {
    let presences = vec![Presence { cid: cid.clone(), has_block }];
    Message { presences, ..Message::default() }
}

/// The wants, the presences and the number of blocks in the only message.
fn sent(outputs: &[Output<usize, FakeBlock>]) -> (&[WantEntry], &[Presence], usize) {
    match outputs {
        [Output::Send { message, .. }] => {
            (&message.wants, &message.presences, message.blocks.len())
        }
        outputs => panic!("{outputs:?}"),
    }
}

#[test]
fn a_question_is_a_want_have_outside_of_all_sessions() {
    for has_block in [true, false] {
        let mut exchange = exchange(&[1], Protocol::V1_2);
        assert!(exchange.ask(NOW, 1, &cid(7)));
        let asked = outputs(&mut exchange);
        let (wants, ..) = sent(&asked);
        assert_eq!(wants, want(&cid(7), WantKind::Have).wants);
        exchange.handle_message(NOW, 1, presence(&cid(7), has_block));
        let answered = outputs(&mut exchange);
        assert_eq!(answered[0], Output::Answered { peer: 1, cid: cid(7), has_block });
        if has_block {
            assert_eq!(answered.len(), 1);
        } else {
            // The peer must not remember the want, and send the block one day.
            let (wants, ..) = sent(&answered[1..]);
            assert!(wants.len() == 1 && wants[0].cancel && wants[0].cid == cid(7));
        }
        exchange.handle_message(NOW, 1, presence(&cid(7), has_block));
        assert_eq!(outputs(&mut exchange), [], "it was answered");
    }
}

#[test]
fn a_short_block_is_an_answer_and_no_flood() {
    let mut exchange = exchange(&[1], Protocol::V1_2);
    let block = fake_blocks(1, 20).remove(0);
    for _ in 0..1000 {
        assert!(exchange.ask(NOW, 1, &block.cid));
        outputs(&mut exchange);
        let message = Message { blocks: vec![block.clone()], ..Message::default() };
        exchange.handle_message(NOW, 1, message);
        let answer = Output::Answered { peer: 1, cid: block.cid.clone(), has_block: true };
        assert_eq!(outputs(&mut exchange), [answer]);
    }
}

#[test]
fn a_peer_that_is_gone_or_speaks_an_old_protocol_has_no_block() {
    let mut exchange_of_one = exchange(&[1], Protocol::V1_2);
    assert!(exchange_of_one.ask(NOW, 1, &cid(7)));
    exchange_of_one.handle_disconnected(NOW, 1);
    let gone = Output::Answered { peer: 1, cid: cid(7), has_block: false };
    assert_eq!(outputs(&mut exchange_of_one), [gone]);
    assert!(!exchange_of_one.ask(NOW, 1, &cid(7)), "it is not connected");
    assert!(!exchange(&[1], Protocol::V1_1).ask(NOW, 1, &cid(7)));
}

#[test]
fn the_unanswered_questions_of_a_peer_are_bounded() {
    let mut exchange = exchange(&[1], Protocol::V1_2);
    let asked = (0..1000).filter(|n| exchange.ask(NOW, 1, &cid(*n))).count();
    assert_eq!(asked, 256);
    assert!(exchange.ask(NOW, 1, &cid(0)), "an open question is asked again");
}

#[test]
fn a_block_that_is_obtained_for_some_peers_is_not_sent_to_others() {
    let mut exchange = exchange(&[1, 2], Protocol::V1_2);
    for peer in [1, 2] {
        exchange.handle_message(NOW, peer, want(&cid(7), WantKind::Block));
        assert_eq!(outputs(&mut exchange), [Output::Lookup { cid: cid(7) }], "one for each peer");
        assert_eq!(exchange.peers_of_lookup(&cid(7)), [peer]);
        exchange.defer_lookup(NOW, &cid(7));
    }
    exchange.handle_stored_for(NOW, &cid(7), 5000, |peer| peer == 2);
    assert_eq!(outputs(&mut exchange), [Output::Read { peer: 2, cid: cid(7) }]);
    exchange.handle_unavailable_for(NOW, &cid(7), |peer| peer == 1);
    let answer = outputs(&mut exchange);
    let (_, presences, _) = sent(&answer);
    assert_eq!(presences, [Presence { cid: cid(7), has_block: false }]);
}

#[test]
fn a_want_have_for_a_block_that_can_be_obtained_is_answered_at_once() {
    let mut exchange = exchange(&[1], Protocol::V1_2);
    exchange.handle_message(NOW, 1, want(&cid(7), WantKind::Have));
    assert_eq!(outputs(&mut exchange), [Output::Lookup { cid: cid(7) }]);
    assert!(exchange.handle_obtainable(NOW, &cid(7)));
    let answer = outputs(&mut exchange);
    let (_, presences, blocks) = sent(&answer);
    assert_eq!((presences, blocks), (&[Presence { cid: cid(7), has_block: true }][..], 0));

    exchange.handle_message(NOW, 1, want(&cid(7), WantKind::Block));
    assert_eq!(outputs(&mut exchange), [Output::Lookup { cid: cid(7) }]);
    assert!(!exchange.handle_obtainable(NOW, &cid(7)), "the block itself is wanted");
    assert_eq!(exchange.peers_of_lookup(&cid(7)), [1]);
}
