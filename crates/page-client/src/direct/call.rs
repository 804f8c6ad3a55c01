//! One attempt of two peers to connect directly: WebRTC without sockets or clocks.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant as StdInstant};

use str0m::change::{SdpAnswer, SdpOffer, SdpPendingOffer};
use str0m::channel::{ChannelConfig, ChannelId};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, IceConnectionState, Input, Rtc, RtcError};
use tokio::sync::OwnedSemaphorePermit;
use watchfire_types::{Instant, PeerId};

use super::path::{FRAME_BYTES_MAX, Misbehaviour, Path};
use super::send_window::{BYTES_MAX as WINDOW_BYTES_MAX, START_BYTES};
use super::signal::{HangUpReason, IceCandidate, Signal};
use super::{Datagram, Output};
use crate::segment::UnsentMessage;

/// The largest frame that is accepted.
const RECEIVED_BYTES_MAX: u32 = 64 << 10;
/// Bytes that SCTP may have without an acknowledgement of its own. A whole window, and frames that have no part in it.
const BUFFERED_BYTES_MAX: usize = WINDOW_BYTES_MAX + (128 << 10);
/// The same for a peer without receipts, and on one machine, where the window makes no pauses. SCTP sends all of it in
/// one burst, which fits into the default buffer of a socket on Linux, and notices the loss of its end after a second.
const BURST_BYTES_MAX: usize = START_BYTES;
/// How long a connection may take to come up, or to come back after a break.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the other side may acknowledge nothing until messages use the relay again.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// A connection without messages is closed after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Offers of the other side in one call: the first, and ICE restarts.
const OFFERS_MAX: u32 = 6;
/// Candidates of the other side for each of its offers.
const CANDIDATES_MAX: usize = 64;

pub(super) struct Call {
    pub(super) number: u32,
    peer: PeerId,
    rtc: Rtc,
    /// Our offer without an answer so far.
    pending: Option<SdpPendingOffer>,
    /// The open channel.
    channel: Option<ChannelId>,
    path: Path,
    frame: Vec<u8>,
    /// Bytes of the frames that were written together last, and whether SCTP has sent anything since.
    written_bytes: usize,
    has_left: bool,
    /// When the next frame may be sent, if it has to wait for that alone.
    resume_at: Option<Instant>,
    their_sdp: String,
    /// Whether this side has loopback addresses only.
    is_on_loopback: bool,
    offers_received: u32,
    candidates_received: usize,
    is_linked: bool,
    is_silent: bool,
    is_up: bool,
    was_up: bool,
    /// The connection fails unless it is up by then.
    fails_at: Option<Instant>,
    /// The last sign of the other side, or when there was nothing to acknowledge.
    alive_at: Instant,
    moved_at: Instant,
    given_bytes: usize,
    left_bytes: usize,
    wake_at: StdInstant,
    ended: Option<HangUpReason>,
    _permit: OwnedSemaphorePermit,
}

impl Call {
    pub(super) fn new(
        number: u32,
        peer: PeerId,
        now: (Instant, StdInstant),
        addresses: &[SocketAddr],
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let mut rtc = Rtc::builder()
            .clear_codecs()
            .set_crypto_provider(super::crypto())
            .set_sctp_max_buffered_amount(BUFFERED_BYTES_MAX)
            .set_sctp_max_message_size(RECEIVED_BYTES_MAX)
            // Saves two round trips with a browser that does it too. Others start SCTP as usual.
            .set_snap_enabled(true)
            .build(now.1);
        for address in addresses {
            if let Ok(candidate) = Candidate::host(*address, Protocol::Udp) {
                rtc.add_local_candidate(candidate);
            }
        }
        Call {
            number,
            peer,
            rtc,
            pending: None,
            channel: None,
            path: Path::new(),
            frame: Vec::with_capacity(FRAME_BYTES_MAX),
            written_bytes: 0,
            has_left: false,
            resume_at: None,
            their_sdp: String::new(),
            is_on_loopback: addresses.iter().all(|address| address.ip().is_loopback()),
            offers_received: 0,
            candidates_received: 0,
            is_linked: false,
            is_silent: false,
            is_up: false,
            was_up: false,
            fails_at: Some(now.0 + CONNECT_TIMEOUT),
            alive_at: now.0,
            moved_at: now.0,
            given_bytes: 0,
            left_bytes: 0,
            wake_at: now.1,
            ended: None,
            _permit: permit,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }

    pub(super) fn was_up(&self) -> bool {
        self.was_up
    }

    /// Whether an offer of this side waits for its answer.
    pub(super) fn is_offering(&self) -> bool {
        self.pending.is_some()
    }

    /// Why the call has ended; `None` while it has not.
    pub(super) fn ended(&self) -> Option<HangUpReason> {
        self.ended
    }

    /// Begins the call.
    pub(super) fn offer(&mut self) -> Option<Signal> {
        let mut change = self.rtc.sdp_api();
        change.add_channel_with_config(channel_config());
        let (offer, pending) = change.apply()?;
        self.pending = Some(pending);
        Some(Signal::Offer { call: self.number, sdp: offer.to_sdp_string(), receipts: true })
    }

    /// Answers the offer that began the call, or one that restarts its connection.
    pub(super) fn handle_offer(
        &mut self,
        sdp: &str,
        receipts: bool,
    ) -> Result<Signal, Misbehaviour> {
        self.offers_received += 1;
        if self.offers_received > OFFERS_MAX {
            return Err(Misbehaviour("too many offers in one call"));
        }
        let sdp = self.with_usable_candidates(sdp);
        let offer =
            SdpOffer::from_sdp_string(&sdp).map_err(|_| Misbehaviour("an invalid offer"))?;
        let answer = self.rtc.sdp_api().accept_offer(offer);
        let answer = answer.map_err(|_| Misbehaviour("an offer that does not fit"))?;
        if self.offers_received == 1 {
            self.rtc.direct_api().create_data_channel(channel_config());
        }
        if receipts {
            self.path.use_receipts();
        }
        Ok(Signal::Answer { call: self.number, sdp: answer.to_sdp_string(), receipts: true })
    }

    pub(super) fn handle_answer(
        &mut self,
        sdp: String,
        receipts: bool,
    ) -> Result<(), Misbehaviour> {
        // An answer arrives twice if its sender received no reply from the server.
        if sdp == self.their_sdp {
            return Ok(());
        }
        let pending = self.pending.take().ok_or(Misbehaviour("an answer without an offer"))?;
        let usable = self.with_usable_candidates(&sdp);
        let answer =
            SdpAnswer::from_sdp_string(&usable).map_err(|_| Misbehaviour("an invalid answer"))?;
        let accepted = self.rtc.sdp_api().accept_answer(pending, answer);
        accepted.map_err(|_| Misbehaviour("an answer that does not fit the offer"))?;
        self.their_sdp = sdp;
        if receipts {
            self.path.use_receipts();
        }
        Ok(())
    }

    pub(super) fn add_candidates(
        &mut self,
        candidates: &[IceCandidate],
    ) -> Result<(), Misbehaviour> {
        self.candidates_received += candidates.len();
        if self.candidates_received > CANDIDATES_MAX * OFFERS_MAX as usize {
            return Err(Misbehaviour("too many candidates in one call"));
        }
        for each in candidates {
            if let Some(candidate) = self.usable_candidate(&each.candidate) {
                self.rtc.add_remote_candidate(candidate);
            }
        }
        Ok(())
    }

    /// Parses a candidate of the other side. `None` if it is not used: browsers also send candidates over TCP, and with names that only
    /// they can resolve. An address of this machine or of its link would be a way to send datagrams to programs that only listen there.
    fn usable_candidate(&self, candidate: &str) -> Option<Candidate> {
        let candidate = Candidate::from_sdp_string(candidate).ok()?;
        let ip = candidate.addr().ip().to_canonical();
        let is_of_link = match ip {
            IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        let is_of_machine = ip.is_unspecified() || (ip.is_loopback() && !self.is_on_loopback);
        let is_usable = !is_of_link && !is_of_machine && !ip.is_multicast();
        (candidate.proto() == Protocol::Udp && is_usable).then_some(candidate)
    }

    /// Returns a description without the candidates that are not used.
    fn with_usable_candidates(&self, sdp: &str) -> String {
        let is_kept = |line: &&str| match line.strip_prefix("a=candidate:") {
            Some(_) => self.usable_candidate(line[2..].trim_end()).is_some(),
            None => true,
        };
        sdp.split_inclusive('\n').filter(is_kept).collect()
    }

    /// Adds the address that a router shows for a local one. Returns the signal that tells it the
    /// other side; `None` if the address is known already.
    pub(super) fn add_public_address(
        &mut self,
        local: SocketAddr,
        public: SocketAddr,
    ) -> Option<Signal> {
        let candidate = Candidate::server_reflexive(public, local, Protocol::Udp).ok()?;
        let candidate = self.rtc.add_local_candidate(candidate)?.to_sdp_string();
        let candidate = IceCandidate { candidate, sdp_mid: None, sdp_m_line_index: Some(0) };
        Some(Signal::Candidates { call: self.number, candidates: vec![candidate] })
    }

    /// Whether a datagram is for this call.
    pub(super) fn accepts(&self, input: &Input<'_>) -> bool {
        self.rtc.accepts(input)
    }

    pub(super) fn handle_input(&mut self, input: Input<'_>) {
        if let Err(error) = self.rtc.handle_input(input) {
            self.fail(&error);
        }
    }

    /// Sends a message. The caller has checked [`Call::is_up`].
    pub(super) fn send(&mut self, now: Instant, message: UnsentMessage) {
        if !self.path.is_busy() {
            self.alive_at = now;
        }
        self.path.push(message);
    }

    /// Whether the peer may not have read a message.
    pub(super) fn has_unread(&self, message: u32) -> bool {
        self.path.has(message)
    }

    pub(super) fn acknowledge(&mut self, message: u32) {
        self.path.acknowledge(message);
    }

    /// Ends the call. Call [`Call::drive`] afterwards.
    pub(super) fn end(&mut self, reason: HangUpReason) {
        if self.ended.is_none() {
            self.ended = Some(reason);
            // Fails only if the connection is closed already.
            let _ = self.rtc.close();
        }
    }

    /// When to call [`Call::handle_input`] with a timeout, on the clock of the WebRTC stack.
    pub(super) fn rtc_wake(&self) -> StdInstant {
        self.wake_at
    }

    /// When to call [`Call::handle_tick`].
    pub(super) fn next_wake(&self) -> Instant {
        let silent_at = (self.is_up && self.path.is_busy()).then(|| self.alive_at + SILENCE_MAX);
        let idle_at = Some(self.moved_at + IDLE_TIMEOUT).filter(|_| !self.path.is_busy());
        let resume_at = self.resume_at.filter(|_| self.is_up);
        [self.fails_at, silent_at, idle_at, resume_at]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(self.moved_at)
    }

    pub(super) fn handle_tick(&mut self, now: Instant) {
        if self.fails_at.is_some_and(|at| at <= now) {
            self.end(HangUpReason::Failed);
        } else if !self.path.is_busy() && self.moved_at + IDLE_TIMEOUT <= now {
            self.end(HangUpReason::Over);
        } else if self.is_up && self.path.is_busy() && self.alive_at + SILENCE_MAX <= now {
            self.is_silent = true;
        }
    }

    /// Sends all that may be sent, and reports all that has happened.
    pub(super) fn drive(
        &mut self,
        now: Instant,
        outputs: &mut VecDeque<Output>,
    ) -> Result<(), Misbehaviour> {
        loop {
            match self.rtc.poll_output() {
                Ok(str0m::Output::Timeout(at)) => {
                    self.wake_at = at;
                    self.update_up(now, outputs);
                    if self.ended.is_some() || !self.write_frames(now, outputs) {
                        return Ok(());
                    }
                }
                Ok(str0m::Output::Transmit(transmit)) => {
                    self.has_left = true;
                    outputs.push_back(Output::Datagram(Datagram {
                        from: transmit.source,
                        to: transmit.destination,
                        bytes: transmit.contents.into(),
                    }));
                }
                Ok(str0m::Output::Event(event)) => self.handle_event(now, event, outputs)?,
                Err(error) => {
                    self.fail(&error);
                    self.update_up(now, outputs);
                    return Ok(());
                }
            }
        }
    }

    fn handle_event(
        &mut self,
        now: Instant,
        event: Event,
        outputs: &mut VecDeque<Output>,
    ) -> Result<(), Misbehaviour> {
        match event {
            Event::IceConnectionStateChange(state) => {
                self.is_linked = state.is_connected();
                if state == IceConnectionState::Disconnected {
                    tracing::debug!(peer = %self.peer, "lost a direct connection for now");
                }
            }
            Event::ChannelOpen(id, _) if self.rtc.channel(id).is_some() => self.channel = Some(id),
            Event::ChannelData(data) if Some(data.id) == self.channel => {
                (self.alive_at, self.moved_at) = (now, now);
                self.is_silent = false;
                if let Some(segment) = self.path.receive(now, &data.data.into())? {
                    outputs.push_back(Output::Segment { peer: self.peer, segment });
                }
            }
            Event::ChannelClose(_) | Event::Closed => {
                let reason = if self.was_up { HangUpReason::Over } else { HangUpReason::Failed };
                self.ended.get_or_insert(reason);
            }
            _ => {}
        }
        Ok(())
    }

    /// Reports whether messages may be sent on the connection, if that has changed.
    fn update_up(&mut self, now: Instant, outputs: &mut VecDeque<Output>) {
        let is_open = self.channel.is_some() && self.ended.is_none();
        let is_up = self.is_linked && is_open && !self.is_silent;
        if is_up == self.is_up {
            return;
        }
        self.is_up = is_up;
        self.was_up |= is_up;
        let peer = self.peer;
        if is_up {
            (self.fails_at, self.alive_at, self.moved_at) = (None, now, now);
            outputs.push_back(Output::Up { peer });
        } else {
            self.fails_at = Some(now + CONNECT_TIMEOUT);
            outputs.push_back(Output::Down { peer, unread: self.path.take_unread() });
        }
    }

    /// Returns whether a frame was written.
    fn write_frames(&mut self, now: Instant, outputs: &mut VecDeque<Output>) -> bool {
        let Some(mut channel) = self.channel.and_then(|id| self.rtc.channel(id)) else {
            return false;
        };
        let mut buffered = channel.buffered_amount();
        // Bytes leave the buffer once they have arrived at the other side.
        let left_bytes = self.given_bytes - buffered.min(self.given_bytes);
        if left_bytes > self.left_bytes {
            (self.left_bytes, self.alive_at) = (left_bytes, now);
        }
        if self.written_bytes > 0 {
            // Nothing waited for SCTP if it sent the first of the last frames at once.
            self.path.handle_buffered(if self.has_left { 0 } else { self.written_bytes });
        }
        (self.written_bytes, self.has_left, self.resume_at) = (0, false, None);
        let buffered_max =
            if self.path.has_window() { BUFFERED_BYTES_MAX } else { BURST_BYTES_MAX };
        while self.is_up && buffered + FRAME_BYTES_MAX <= buffered_max {
            let Some(reported) = self.path.next_frame(now, &mut self.frame) else {
                self.resume_at = self.path.pause().map(|pause| now + pause);
                break;
            };
            match channel.write(true, &self.frame) {
                Ok(true) => {}
                Ok(false) | Err(_) => {
                    self.ended.get_or_insert(HangUpReason::Failed);
                    return true;
                }
            }
            self.written_bytes += self.frame.len();
            buffered += self.frame.len();
            self.given_bytes += self.frame.len();
            self.moved_at = now;
            if reported > 0 {
                outputs.push_back(Output::Sent { peer: self.peer, bytes: reported });
            }
        }
        self.written_bytes > 0
    }

    fn fail(&mut self, error: &RtcError) {
        tracing::debug!(peer = %self.peer, %error, "a direct connection failed");
        self.ended.get_or_insert(HangUpReason::Failed);
    }
}

/// Negotiated in advance, so that neither side has to announce the channel.
fn channel_config() -> ChannelConfig {
    ChannelConfig { label: "watchfire".to_owned(), negotiated: Some(0), ..ChannelConfig::default() }
}

/// Parses a datagram; `None` if it belongs to no protocol of WebRTC.
pub(super) fn parse_datagram(now: StdInstant, datagram: &Datagram) -> Option<Input<'_>> {
    let Datagram { from, to, bytes } = datagram;
    let receive = Receive::new(Protocol::Udp, *from, *to, bytes).ok()?;
    Some(Input::Receive(now, receive))
}
