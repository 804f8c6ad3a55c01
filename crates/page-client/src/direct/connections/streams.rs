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

    /// The peer does not dial, it has given up a stream that opens late, or the server did not
    /// forward the offer. Returns whether the signal was about a stream.
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
                Due::CloseUnread => {
                    self.close_stream(peer);
                    self.note_end(now, peer, HangUpReason::Failed, true);
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
mod quic_tests;
#[cfg(test)]
mod tests;
