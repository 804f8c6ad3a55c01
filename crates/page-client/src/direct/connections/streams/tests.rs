use std::time::{Duration, Instant as StdInstant};

use bytes::Bytes;

use super::*;
use crate::direct::path::FRAME_BYTES_MAX;
use crate::direct::sockets::DirectLimit;
use crate::segment::UnsentMessage;

const PEER: PeerId = PeerId(7);
const SECRET: Secret = Secret([9; 16]);

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// A terminal that has invited a browser at the time zero.
fn invited() -> DirectConnections {
    let addresses = Box::new(|| vec!["10.0.0.1:9".parse().unwrap()]);
    let offer = || {
        let addresses = vec!["10.0.0.1:4433".to_owned()];
        Some(Offer { secret: SECRET, addresses, certificate: "0f".repeat(32) })
    };
    let direct = DirectConnections::new(StdInstant::now(), DirectLimit::new(4), addresses);
    let mut direct = direct.with_streams(Box::new(offer));
    assert!(direct.call(at(0), PEER));
    direct
}

fn opened() -> DirectConnections {
    let mut direct = invited();
    direct.handle_stream_event(at(50), SECRET, StreamEvent::Opened);
    assert!(direct.is_up(PEER));
    outputs(&mut direct);
    direct
}

fn outputs(direct: &mut DirectConnections) -> Vec<Output> {
    std::iter::from_fn(|| direct.poll_output()).collect()
}

fn signals(outputs: &[Output]) -> Vec<Signal> {
    let bytes = outputs.iter().filter_map(|output| match output {
        Output::Signal { bytes, .. } => Some(bytes),
        _ => None,
    });
    bytes.map(|bytes| Signal::decode(bytes).unwrap()).collect()
}

fn is_offer(signal: &Signal) -> bool {
    matches!(signal, Signal::Offer { .. })
}

fn message(id: u32, len: usize) -> UnsentMessage {
    UnsentMessage { id, bytes: vec![7; len].into(), is_reported: false, is_relayed: false }
}

fn frames(outputs: &[Output]) -> usize {
    outputs.iter().filter(|output| matches!(output, Output::StreamFrame { .. })).count()
}

#[test]
fn a_browser_is_invited_first_and_called_if_it_does_not_dial_soon() {
    let mut direct = invited();
    let invitation = signals(&outputs(&mut direct));
    assert!(matches!(&invitation[..], [Signal::WebTransport { .. }]), "{invitation:?}");
    assert_eq!(direct.next_wake(), Some(at(250)));
    direct.handle_tick(at(250));
    assert!(signals(&outputs(&mut direct)).iter().any(is_offer));
    assert!(!direct.call(at(251), PEER), "it is being called");
    direct.handle_tick(at(10_000));
    assert!(outputs(&mut direct).contains(&Output::CloseStream { secret: SECRET }));
}

#[test]
fn a_browser_that_cannot_dial_is_called_at_once() {
    let mut direct = invited();
    let number = signals(&outputs(&mut direct))[0].call();
    let hang_up = Signal::HangUp { call: number, reason: HangUpReason::Failed };
    direct.handle_signal(at(20), PEER, &hang_up.encode());
    let outputs = outputs(&mut direct);
    assert!(signals(&outputs).iter().any(is_offer));
    assert!(outputs.contains(&Output::CloseStream { secret: SECRET }));
}

#[test]
fn an_open_stream_survives_a_lost_signal() {
    let mut direct = invited();
    let number = signals(&outputs(&mut direct))[0].call();
    direct.handle_stream_event(at(50), SECRET, StreamEvent::Opened);
    outputs(&mut direct);
    direct.handle_lost_signal(at(10_000), PEER, number);
    assert_eq!(outputs(&mut direct), []);
    assert!(direct.is_up(PEER));
}

#[test]
fn a_browser_whose_invitation_is_lost_is_called_at_once() {
    let mut direct = invited();
    let number = signals(&outputs(&mut direct))[0].call();
    direct.handle_lost_signal(at(20), PEER, number);
    let outputs = outputs(&mut direct);
    assert!(signals(&outputs).iter().any(is_offer));
    assert!(outputs.contains(&Output::CloseStream { secret: SECRET }));
}

#[test]
fn a_stream_replaces_a_call_and_a_late_offer_of_the_peer_is_declined() {
    let mut direct = invited();
    direct.handle_tick(at(250));
    direct.handle_stream_event(at(260), SECRET, StreamEvent::Opened);
    assert!(direct.calls.is_empty() && direct.is_up(PEER));
    let events = outputs(&mut direct);
    let ended = events.iter().position(|output| *output == Output::Ended { peer: PEER });
    let up = events.iter().position(|output| *output == Output::Up { peer: PEER });
    assert!(ended < up && ended.is_some(), "{events:?}");
    let sdp = "v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n".to_owned();
    direct.handle_signal(at(270), PEER, &Signal::Offer { call: 5, sdp, receipts: true }.encode());
    let declined = Signal::HangUp { call: 5, reason: HangUpReason::Over };
    assert_eq!(signals(&outputs(&mut direct)), [declined]);
}

#[test]
fn the_queue_of_a_stream_is_bounded_and_refilled() {
    let mut direct = opened();
    direct.send(at(60), PEER, message(1, 2 << 20));
    let sent = outputs(&mut direct);
    assert_eq!(frames(&sent), 64);
    direct.handle_stream_event(at(61), SECRET, StreamEvent::Written(10));
    assert_eq!(frames(&outputs(&mut direct)), 10);
}

#[test]
fn unread_messages_are_returned_when_the_stream_closes_and_the_browser_is_invited_later() {
    let mut direct = opened();
    direct.send(at(60), PEER, message(1, 20_000));
    direct.send(at(60), PEER, message(2, 20_000));
    outputs(&mut direct);
    let read = Bytes::from_static(&[1, 0, 0, 0, 1]);
    direct.handle_stream_event(at(70), SECRET, StreamEvent::Frame(read));
    direct.handle_stream_event(at(80), SECRET, StreamEvent::Closed);
    let events = outputs(&mut direct);
    let unread = events.iter().find_map(|output| match output {
        Output::Down { unread, .. } => Some(unread.iter().map(|each| each.id).collect()),
        _ => None,
    });
    assert_eq!(unread, Some(vec![2]));
    assert!(events.contains(&Output::Ended { peer: PEER }) && !direct.is_up(PEER));
    assert!(!direct.call(at(5_000), PEER));
    assert!(direct.call(at(10_000), PEER));
}

#[test]
fn a_stream_without_messages_is_closed_after_a_minute() {
    let mut direct = opened();
    direct.handle_tick(at(50 + 59_999));
    assert!(direct.is_up(PEER));
    direct.handle_tick(at(50 + 60_000));
    assert!(!direct.is_up(PEER));
    assert!(outputs(&mut direct).contains(&Output::CloseStream { secret: SECRET }));
}

/// Sends messages, and hands over the frames until no more are made. Returns their number.
fn send_all(direct: &mut DirectConnections, now: Instant, messages: usize) -> usize {
    (0..messages).for_each(|id| direct.send(now, PEER, message(id as u32, 1 << 20)));
    let mut sent = 0;
    loop {
        let count = frames(&outputs(direct));
        if count == 0 {
            return sent;
        }
        sent += count;
        direct.handle_stream_event(now, SECRET, StreamEvent::Written(count));
    }
}

#[test]
fn a_browser_that_acknowledges_nothing_gets_few_messages_and_loses_its_stream() {
    let mut direct = opened();
    let sent = send_all(&mut direct, at(60), 20);
    assert!(sent * FRAME_BYTES_MAX <= 5 << 20, "{sent} frames");
    // Its own messages do not count.
    let segment = [&[0][..], &[0; 8], &3_u32.to_be_bytes(), b"abc"].concat();
    direct.handle_stream_event(at(20_000), SECRET, StreamEvent::Frame(segment.into()));
    direct.handle_tick(at(60 + 29_999));
    assert!(direct.is_up(PEER));
    assert_eq!(direct.next_wake(), Some(at(60 + 30_000)));
    direct.handle_tick(at(60 + 30_000));
    let events = outputs(&mut direct);
    let unread = events.iter().find_map(|output| match output {
        Output::Down { unread, .. } => Some(unread.len()),
        _ => None,
    });
    assert_eq!(unread, Some(20), "all messages use the relay");
    assert!(events.contains(&Output::CloseStream { secret: SECRET }));
    assert!(!direct.is_up(PEER));
}

#[test]
fn a_browser_that_reads_slowly_or_over_a_slow_network_keeps_its_stream() {
    let mut direct = opened();
    send_all(&mut direct, at(60), 20);
    let read = Bytes::from_static(&[1, 0, 0, 0, 0]);
    direct.handle_stream_event(at(20_000), SECRET, StreamEvent::Frame(read.clone()));
    assert_eq!(direct.next_wake(), Some(at(50_000)));
    direct.handle_stream_event(at(40_000), SECRET, StreamEvent::Sending);
    direct.handle_stream_event(at(45_000), SECRET, StreamEvent::Frame(read));
    assert_eq!(direct.next_wake(), Some(at(70_000)), "the message was acknowledged before");
}

#[test]
fn a_browser_that_writes_invalid_frames_misbehaves() {
    let unsent = Bytes::from_static(&[1, 0, 0, 0, 3]);
    let invalid = Bytes::from_static(&[9]);
    let events = [StreamEvent::Malformed, StreamEvent::Frame(invalid), StreamEvent::Frame(unsent)];
    for event in events {
        let mut direct = opened();
        direct.send(at(60), PEER, message(3, 2 << 20));
        direct.handle_stream_event(at(61), SECRET, event.clone());
        let events = outputs(&mut direct);
        let is_reported = |output: &Output| matches!(output, Output::Misbehaved { .. });
        assert!(events.iter().any(is_reported), "{event:?}: {events:?}");
        assert!(direct.streams.is_empty());
    }
}

#[test]
fn events_of_unknown_streams_close_them() {
    let mut direct = opened();
    let other = Secret([1; 16]);
    direct.handle_stream_event(at(60), other, StreamEvent::Opened);
    assert_eq!(outputs(&mut direct), [Output::CloseStream { secret: other }]);
    direct.forget(at(61), PEER);
    direct.handle_stream_event(at(62), SECRET, StreamEvent::Written(1));
    assert!(!direct.is_up(PEER) && direct.streams.is_empty());
}
