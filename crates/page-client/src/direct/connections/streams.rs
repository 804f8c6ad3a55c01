//! The streams among the direct connections: a browser dials the terminal over WebTransport.

use watchfire_types::{Instant, PeerId};

use super::{DirectConnections, HangUpReason, Output, Signal};
use crate::direct::stream_call::{Due, StreamCall};
use crate::direct::web_transport::{Offer, Secret, StreamEvent};

/// Returns the offer of a stream; `None` if none can be accepted.
pub(crate) type OfferStream = Box<dyn FnMut() -> Option<Offer> + Send>;

impl DirectConnections {
    /// Uses streams beside WebRTC.
    pub(crate) fn with_streams(self, offer_stream: OfferStream) -> Self {
        DirectConnections { offer_stream, ..self }
    }

    /// Invites a peer to dial. Returns whether it was invited.
    pub(super) fn invite(&mut self, now: Instant, peer: PeerId) -> bool {
        let Some(permit) = self.limit.acquire() else { return false };
        let Some(offer) = (self.offer_stream)() else { return false };
        tracing::debug!(%peer, "invites a peer to dial");
        self.next_call = self.next_call.wrapping_add(1);
        let number = self.next_call;
        self.streams.insert(peer, StreamCall::new(number, peer, now, &offer, permit));
        let Offer { secret, addresses, certificate } = offer;
        let secret = secret.to_string();
        self.push_signal(
            peer,
            &Signal::WebTransport { call: number, addresses, certificate, secret },
        );
        true
    }

    /// An event of a stream. One that was closed here may have events in flight.
    pub(crate) fn handle_stream_event(&mut self, now: Instant, secret: Secret, event: StreamEvent) {
        let stream = self.streams.iter_mut().find(|(_, stream)| stream.secret == secret);
        let Some((&peer, stream)) = stream else {
            return self.outputs.push_back(Output::CloseStream { secret });
        };
        match event {
            StreamEvent::Opened => self.use_stream(now, peer),
            StreamEvent::Closed => {
                self.close_stream(peer);
                self.note_end(now, peer, HangUpReason::Failed, true);
            }
            event => {
                if let Err(misbehaviour) = stream.handle_event(now, event, &mut self.outputs) {
                    self.report_misbehaviour(now, peer, &misbehaviour);
                }
            }
        }
    }

    /// A stream has opened: messages use it. A WebRTC connection is closed, and the browser closes
    /// its end too.
    fn use_stream(&mut self, now: Instant, peer: PeerId) {
        if let Some(call) = self.calls.get_mut(&peer) {
            call.end(HangUpReason::Over);
            self.drive_silently(now, peer);
        }
        let Some(stream) = self.streams.get_mut(&peer) else { return };
        tracing::debug!(%peer, "a peer has dialled");
        stream.open(now);
        self.histories.entry(peer).or_default().failures = 0;
        self.outputs.push_back(Output::Up { peer });
    }

    /// The peer does not dial, it closes its stream, or the server did not forward the offer.
    /// Returns whether the signal was about a stream.
    pub(super) fn handle_declined(&mut self, now: Instant, peer: PeerId, number: u32) -> bool {
        let Some(stream) = self.streams.get(&peer).filter(|stream| stream.number == number) else {
            return false;
        };
        if stream.is_open() {
            self.close_stream(peer);
            self.note_end(now, peer, HangUpReason::Over, true);
        } else {
            let is_before_call = stream.is_before_call();
            self.forget_offer(peer);
            if is_before_call && !self.begin_call(now, peer) {
                // Messages need not wait any more.
                self.outputs.push_back(Output::Ended { peer });
            }
        }
        true
    }

    pub(super) fn tick_streams(&mut self, now: Instant) {
        let due = self
            .streams
            .iter_mut()
            .filter_map(|(peer, stream)| stream.handle_tick(now).map(|due| (*peer, due)));
        for (peer, due) in due.collect::<Vec<_>>() {
            match due {
                Due::Call => {
                    self.begin_call(now, peer);
                }
                Due::GiveUp => self.forget_offer(peer),
                Due::CloseIdle => {
                    self.close_stream(peer);
                    self.note_end(now, peer, HangUpReason::Over, true);
                }
            }
        }
    }

    /// The peer did not dial. A WebRTC connection to it is not affected.
    fn forget_offer(&mut self, peer: PeerId) {
        if let Some(stream) = self.streams.remove(&peer) {
            self.outputs.push_back(Output::CloseStream { secret: stream.secret });
        }
    }

    pub(super) fn close_stream(&mut self, peer: PeerId) {
        if let Some(stream) = self.streams.remove(&peer) {
            stream.close(&mut self.outputs);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant as StdInstant};

    use bytes::Bytes;

    use super::*;
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
        direct.handle_signal(at(270), PEER, &Signal::Offer { call: 5, sdp }.encode());
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

    #[test]
    fn a_browser_that_writes_invalid_frames_misbehaves() {
        let unsent = Bytes::from_static(&[1, 0, 0, 0, 3]);
        let invalid = Bytes::from_static(&[9]);
        let events =
            [StreamEvent::Malformed, StreamEvent::Frame(invalid), StreamEvent::Frame(unsent)];
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
}
