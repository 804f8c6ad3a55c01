//! The direct connections of one page: calls peers, and answers their calls.

mod streams;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant as StdInstant};

use watchfire_types::{Instant, PeerId};

use super::call::{Call, parse_datagram};
use super::path::Misbehaviour;
use super::public_addresses::PublicAddresses;
use super::signal::{HangUpReason, Signal};
use super::sockets::DirectLimit;
use super::stream_call::StreamCall;
use super::{Datagram, Output};
use crate::segment::UnsentMessage;
use streams::OfferStream;

/// After this many failed calls in a row, a peer is not called any more.
const FAILURES_MAX: u32 = 3;
/// The pause after a failed call. It doubles each time.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);
/// The pause after a call that ended because a connection was busy or idle.
const BUSY_PAUSE: Duration = Duration::from_secs(30);
/// The time between the starts of two calls to one peer.
const CALL_PAUSE: Duration = Duration::from_secs(10);
/// Signals of one peer in a period, and calls that it may begin in a minute.
const SIGNALS_MAX: u32 = 150;
const SIGNALS_PERIOD: Duration = Duration::from_secs(10);
const CALLS_MAX: u32 = 8;
const CALLS_PERIOD: Duration = Duration::from_secs(60);

/// The behaviour of a peer, and the results of calls to it. Kept while the peer is on the page.
#[derive(Debug, Default)]
struct CallHistory {
    failures: u32,
    callable_at: Instant,
    signals: u32,
    signals_since: Instant,
    calls: u32,
    calls_since: Instant,
    last_offer: Option<(u32, String)>,
}

/// Returns the addresses of the sockets that receive the datagrams of direct connections.
pub(crate) type LocalAddresses = Box<dyn FnMut() -> Vec<SocketAddr> + Send>;

pub(crate) struct DirectConnections {
    /// The zero of [`Instant`] on the clock of the WebRTC stack.
    started_at: StdInstant,
    limit: DirectLimit,
    local_addresses: LocalAddresses,
    public_addresses: PublicAddresses,
    me: PeerId,
    next_call: u32,
    calls: BTreeMap<PeerId, Call>,
    offer_stream: OfferStream,
    /// Streams that are open, or that a peer may open. A peer with an open stream has no call.
    streams: BTreeMap<PeerId, StreamCall>,
    histories: BTreeMap<PeerId, CallHistory>,
    outputs: VecDeque<Output>,
}

impl std::fmt::Debug for DirectConnections {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.calls.keys()).finish()
    }
}

impl DirectConnections {
    pub(crate) fn new(
        started_at: StdInstant,
        limit: DirectLimit,
        local_addresses: LocalAddresses,
    ) -> Self {
        DirectConnections {
            started_at,
            limit,
            local_addresses,
            public_addresses: PublicAddresses::default(),
            me: PeerId(0),
            next_call: 0,
            calls: BTreeMap::new(),
            offer_stream: Box::new(|| None),
            streams: BTreeMap::new(),
            histories: BTreeMap::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Sets the id of this client on the page.
    pub(crate) fn set_me(&mut self, me: PeerId) {
        self.me = me;
    }

    /// Sets the addresses at which the server answers STUN.
    pub(crate) fn set_stun_servers(&mut self, servers: Vec<SocketAddr>) {
        self.public_addresses.set_servers(servers);
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub(crate) fn is_up(&self, peer: PeerId) -> bool {
        self.streams.get(&peer).is_some_and(StreamCall::is_open)
            || self.calls.get(&peer).is_some_and(Call::is_up)
    }

    /// Invites a peer to dial, or calls it, unless that is in progress or not allowed now. Returns
    /// whether a connection may be up soon.
    pub(crate) fn call(&mut self, now: Instant, peer: PeerId) -> bool {
        let history = self.histories.entry(peer).or_default();
        let is_allowed = history.failures < FAILURES_MAX && history.callable_at <= now;
        let is_busy = self.calls.contains_key(&peer) || self.streams.contains_key(&peer);
        if is_busy || !is_allowed {
            return false;
        }
        history.callable_at = now + CALL_PAUSE;
        self.invite(now, peer) || self.begin_call(now, peer)
    }

    /// Calls a peer over WebRTC, if it has not called. Returns whether a call is in progress.
    fn begin_call(&mut self, now: Instant, peer: PeerId) -> bool {
        if self.calls.contains_key(&peer) {
            return true;
        }
        self.next_call = self.next_call.wrapping_add(1);
        let Some(mut call) = self.begin(now, peer, self.next_call) else {
            self.histories.entry(peer).or_default().callable_at = now + BUSY_PAUSE;
            return false;
        };
        let Some(offer) = call.offer() else { return false };
        tracing::debug!(%peer, "calls a peer");
        self.push_signal(peer, &offer);
        self.calls.insert(peer, call);
        self.drive(now, peer);
        true
    }

    /// A peer sent a signal, which can be anything.
    pub(crate) fn handle_signal(&mut self, now: Instant, peer: PeerId, bytes: &[u8]) {
        let handled = match Signal::decode(bytes) {
            Some(signal) => {
                self.count_signal(now, peer, &signal).and_then(|is_repeated| match is_repeated {
                    true => Ok(()),
                    false => self.handle_valid_signal(now, peer, signal),
                })
            }
            None => Err(Misbehaviour("an invalid signal")),
        };
        match handled {
            Ok(()) => self.drive(now, peer),
            Err(misbehaviour) => self.report_misbehaviour(now, peer, &misbehaviour),
        }
    }

    /// The server did not forward a signal of this call, or did not confirm it in time. A connection
    /// that is open needs no signal, so it stays.
    pub(crate) fn handle_lost_signal(&mut self, now: Instant, peer: PeerId, number: u32) {
        if self.is_up(peer) || self.handle_declined(now, peer, number) {
            return;
        }
        if let Some(call) = self.calls.get_mut(&peer)
            && call.number == number
        {
            call.end(HangUpReason::Failed);
            self.drive(now, peer);
        }
    }

    pub(crate) fn handle_datagram(&mut self, now: Instant, datagram: &Datagram) {
        if let Some((local, public)) = self.public_addresses.handle_datagram(datagram) {
            return self.add_public_address(now, local, public);
        }
        let Some(input) = parse_datagram(self.std_of(now), datagram) else { return };
        let call = self.calls.iter_mut().find(|(_, call)| call.accepts(&input));
        if let Some((&peer, call)) = call {
            call.handle_input(input);
            self.drive(now, peer);
        }
    }

    /// Sends a message. The caller has checked [`DirectConnections::is_up`].
    pub(crate) fn send(&mut self, now: Instant, peer: PeerId, message: UnsentMessage) {
        if let Some(stream) = self.streams.get_mut(&peer).filter(|stream| stream.is_open()) {
            stream.send(now, message, &mut self.outputs);
        } else if let Some(call) = self.calls.get_mut(&peer) {
            call.send(now, message);
            self.drive(now, peer);
        }
    }

    /// Whether a message was sent to a peer that may not have read it.
    pub(crate) fn has_unread(&self, peer: PeerId, message: u32) -> bool {
        self.streams.get(&peer).is_some_and(|stream| stream.has_unread(message))
            || self.calls.get(&peer).is_some_and(|call| call.has_unread(message))
    }

    /// Tells a peer that its message was read.
    pub(crate) fn acknowledge(&mut self, now: Instant, peer: PeerId, message: u32) {
        if let Some(stream) = self.streams.get_mut(&peer).filter(|stream| stream.is_open()) {
            stream.acknowledge(now, message, &mut self.outputs);
        } else if let Some(call) = self.calls.get_mut(&peer) {
            call.acknowledge(message);
            self.drive(now, peer);
        }
    }

    /// The peer has left or was banned.
    pub(crate) fn forget(&mut self, now: Instant, peer: PeerId) {
        self.close_stream(peer);
        if let Some(call) = self.calls.get_mut(&peer) {
            call.end(HangUpReason::Over);
            self.drive_silently(now, peer);
        }
        self.histories.remove(&peer);
    }

    pub(crate) fn handle_tick(&mut self, now: Instant) {
        self.tick_streams(now);
        let std_now = self.std_of(now);
        let is_due = |call: &Call| call.next_wake() <= now || call.rtc_wake() <= std_now;
        let due = self.calls.iter().filter(|(_, call)| is_due(call));
        for peer in due.map(|(peer, _)| *peer).collect::<Vec<_>>() {
            if let Some(call) = self.calls.get_mut(&peer) {
                call.handle_input(str0m::Input::Timeout(std_now));
                call.handle_tick(now);
                self.drive(now, peer);
            }
        }
    }

    /// When to call [`DirectConnections::handle_tick`].
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let of = |call: &Call| {
            let rtc_wake = call.rtc_wake().saturating_duration_since(self.started_at);
            call.next_wake().min(Instant::ZERO + rtc_wake.min(FAR))
        };
        let streams = self.streams.values().map(StreamCall::next_wake);
        self.calls.values().map(of).chain(streams).min()
    }

    /// Returns whether the signal is an offer that was handled before.
    fn count_signal(
        &mut self,
        now: Instant,
        peer: PeerId,
        signal: &Signal,
    ) -> Result<bool, Misbehaviour> {
        let current = self.calls.get(&peer).map(|call| call.number);
        let history = self.histories.entry(peer).or_default();
        if now.since(history.signals_since) >= SIGNALS_PERIOD {
            (history.signals, history.signals_since) = (0, now);
        }
        if now.since(history.calls_since) >= CALLS_PERIOD {
            (history.calls, history.calls_since) = (0, now);
        }
        history.signals += 1;
        if history.signals > SIGNALS_MAX {
            return Err(Misbehaviour("too many signals"));
        }
        let Signal::Offer { call, sdp, .. } = signal else { return Ok(false) };
        let offer = (*call, sdp.clone());
        if history.last_offer.as_ref() == Some(&offer) {
            return Ok(true);
        }
        history.last_offer = Some(offer);
        history.calls += u32::from(current != Some(*call));
        if history.calls > CALLS_MAX { Err(Misbehaviour("too many calls")) } else { Ok(false) }
    }

    fn handle_valid_signal(
        &mut self,
        now: Instant,
        peer: PeerId,
        signal: Signal,
    ) -> Result<(), Misbehaviour> {
        if let Signal::HangUp { call, .. } = signal
            && self.handle_declined(now, peer, call)
        {
            return Ok(());
        }
        let current = self.calls.get_mut(&peer).filter(|call| call.number == signal.call());
        match (signal, current) {
            (Signal::Offer { sdp, receipts, .. }, Some(call)) if !call.is_offering() => {
                let answer = call.handle_offer(&sdp, receipts)?;
                self.push_signal(peer, &answer);
            }
            (Signal::Offer { call, sdp, receipts }, _) => {
                self.answer_call(now, peer, call, &sdp, receipts)?;
            }
            (Signal::Answer { sdp, receipts, .. }, Some(call)) => {
                call.handle_answer(sdp, receipts)?;
            }
            (Signal::Candidates { candidates, .. }, Some(call)) => {
                call.add_candidates(&candidates)?;
            }
            (Signal::HangUp { reason, .. }, Some(call)) => {
                call.end(reason);
                let was_up = call.was_up();
                self.note_end(now, peer, reason, was_up);
                self.drive_silently(now, peer);
            }
            // A terminal dials nobody.
            (Signal::WebTransport { .. }, _) => {}
            // These belong to a call that has ended.
            (Signal::Answer { .. } | Signal::Candidates { .. } | Signal::HangUp { .. }, None) => {}
        }
        Ok(())
    }

    /// A peer begins a call. If both sides begin one, the call of the peer with the larger id counts.
    fn answer_call(
        &mut self,
        now: Instant,
        peer: PeerId,
        number: u32,
        sdp: &str,
        receipts: bool,
    ) -> Result<(), Misbehaviour> {
        if self.streams.get(&peer).is_some_and(StreamCall::is_open) {
            self.push_signal(peer, &Signal::HangUp { call: number, reason: HangUpReason::Over });
            return Ok(());
        }
        if let Some(current) = self.calls.get_mut(&peer) {
            if current.is_offering() && self.me > peer {
                return Ok(());
            }
            // The peer has given up the call that is still open here, or its call counts.
            current.end(HangUpReason::Over);
            self.drive_silently(now, peer);
        }
        let Some(mut call) = self.begin(now, peer, number) else {
            let reason = HangUpReason::Busy;
            self.push_signal(peer, &Signal::HangUp { call: number, reason });
            return Ok(());
        };
        let answer = call.handle_offer(sdp, receipts)?;
        self.push_signal(peer, &answer);
        self.calls.insert(peer, call);
        Ok(())
    }

    /// Returns `None` if there is no connection to spare, or no address to be reached at.
    fn begin(&mut self, now: Instant, peer: PeerId, number: u32) -> Option<Call> {
        let permit = self.limit.acquire()?;
        let addresses = (self.local_addresses)();
        if addresses.is_empty() {
            return None;
        }
        let requests = self.public_addresses.requests(&addresses).into_iter();
        self.outputs.extend(requests.map(Output::Datagram));
        let now = (now, self.std_of(now));
        let mut call = Call::new(number, peer, now, &addresses, permit);
        for local in addresses {
            if let Some(public) = self.public_addresses.of(local) {
                // The description of the call will contain it.
                let _ = call.add_public_address(local, public);
            }
        }
        Some(call)
    }

    fn add_public_address(&mut self, now: Instant, local: SocketAddr, public: SocketAddr) {
        for peer in self.calls.keys().copied().collect::<Vec<_>>() {
            let candidates =
                self.calls.get_mut(&peer).and_then(|call| call.add_public_address(local, public));
            if let Some(candidates) = candidates {
                self.push_signal(peer, &candidates);
                self.drive(now, peer);
            }
        }
    }

    /// Drives a call after an input, and removes it if it has ended.
    fn drive(&mut self, now: Instant, peer: PeerId) {
        let Some(call) = self.calls.get_mut(&peer) else { return };
        if let Err(misbehaviour) = call.drive(now, &mut self.outputs) {
            return self.report_misbehaviour(now, peer, &misbehaviour);
        }
        if let Some(reason) = call.ended() {
            let signal = Signal::HangUp { call: call.number, reason };
            let was_up = call.was_up();
            self.push_signal(peer, &signal);
            self.note_end(now, peer, reason, was_up);
            self.drive_silently(now, peer);
        }
    }

    /// Removes a call that has ended, without a signal to the other side.
    fn drive_silently(&mut self, now: Instant, peer: PeerId) {
        if let Some(mut call) = self.calls.remove(&peer) {
            // The call is over. Its last frames are of no interest.
            let _ = call.drive(now, &mut self.outputs);
            self.outputs.push_back(Output::Ended { peer });
        }
    }

    fn note_end(&mut self, now: Instant, peer: PeerId, reason: HangUpReason, was_up: bool) {
        tracing::debug!(%peer, ?reason, was_up, "a direct connection ended");
        let history = self.histories.entry(peer).or_default();
        if was_up {
            history.failures = 0;
        }
        let pause = if reason == HangUpReason::Failed {
            // A peer may call, and let its calls fail, without end.
            history.failures = FAILURES_MAX.min(history.failures + 1);
            FAILURE_PAUSE * 2u32.pow(history.failures - 1)
        } else {
            BUSY_PAUSE
        };
        history.callable_at = history.callable_at.max(now + pause);
    }

    fn report_misbehaviour(&mut self, now: Instant, peer: PeerId, misbehaviour: &Misbehaviour) {
        let Misbehaviour(reason) = *misbehaviour;
        self.close_stream(peer);
        if let Some(call) = self.calls.get_mut(&peer) {
            call.end(HangUpReason::Failed);
            self.drive_silently(now, peer);
        }
        self.outputs.push_back(Output::Misbehaved { peer, reason });
    }

    fn push_signal(&mut self, to: PeerId, signal: &Signal) {
        let (call, bytes) = (signal.call(), signal.encode());
        self.outputs.push_back(Output::Signal { to, call, bytes });
    }

    fn std_of(&self, now: Instant) -> StdInstant {
        self.started_at + now.since(Instant::ZERO)
    }
}

/// Later wakes are cut to this. The WebRTC stack names a time in the far future when it waits.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests;
