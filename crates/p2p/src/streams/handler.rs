use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bitswap::{Message, Protocol};
use futures::StreamExt;
use futures::stream::SelectAll;
use libp2p::Stream;
use libp2p::swarm::handler::{ConnectionEvent, DialUpgradeError};
use libp2p::swarm::{
    ConnectionHandler, ConnectionHandlerEvent, StreamUpgradeError, SubstreamProtocol,
};
use tokio::time::{Sleep, sleep};

use super::arrivals::{Arrivals, Hall, Place};
use super::inbound::{Inbound, InboundError};
use super::lanes::Lanes;
use super::offer::Offer;
use super::outbound::Outbound;
use crate::settings::StreamLimits;
use crate::wire;

/// How long to wait before a stream that broke is opened again, at first; doubled each time.
const REOPEN_AFTER: Duration = Duration::from_millis(100);
const REOPEN_DOUBLINGS_MAX: u32 = 8;

/// How often the host is told that part of a message came.
const ARRIVING_EVERY: Duration = Duration::from_millis(100);

/// What the host asks of one connection.
#[derive(Debug)]
pub(crate) enum Ask {
    /// Send this, in this version's encoding.
    Send(Message),
    /// Hang up on this peer's streams: none of its messages is wanted any more.
    Ignore,
}

/// What one connection tells the host.
#[derive(Debug)]
pub(crate) enum Tell {
    /// Messages can be sent from now on.
    Opened { protocol: Protocol },
    /// They cannot any more; what was not written is lost.
    Closed,
    /// The other side does not speak Bitswap.
    Unsupported,
    /// Part of a long message came.
    Arriving,
    /// A message came.
    Message { message: Message, bytes: usize, place: Place },
    /// A message of so many bytes, as [`wire::len`] counts them, was handed to the network.
    Written { bytes: usize },
    /// Something came that is no message; so many have by now.
    Malformed { error: String, so_far: u32 },
}

type HandlerEvent = ConnectionHandlerEvent<Offer, (), Tell>;

/// The Bitswap streams of one connection.
pub(crate) struct Handler {
    limits: StreamLimits,
    offer: Offer,
    inbound: SelectAll<Inbound<Stream>>,
    /// Streams that are read when others have ended: most bring an answer that is not sent again.
    unread: VecDeque<(Stream, Protocol)>,
    arrivals: Arrivals,
    told_at: Instant,
    outbound: Out,
    /// Streams to the other side that broke since the last message was written.
    broken: u32,
    malformed: u32,
    is_ignored: bool,
    /// At most one for what happened since the last poll, each kind.
    tells: VecDeque<Tell>,
}

enum Out {
    /// To be opened when the pause is over.
    Wanted(Option<Pin<Box<Sleep>>>),
    Opening,
    /// The stream for words is open, and the one for blocks is to be opened.
    HalfOpen {
        words: Outbound<Stream>,
        is_asked: bool,
    },
    Open {
        lanes: Box<Lanes<Stream>>,
        protocol: Protocol,
    },
    /// The other side refused every version.
    Unsupported,
}

impl Handler {
    pub(super) fn new(limits: StreamLimits, hall: Hall, offer: Offer) -> Self {
        Handler {
            offer,
            inbound: SelectAll::new(),
            unread: VecDeque::new(),
            arrivals: Arrivals::new(limits.arriving_bytes_max, hall),
            limits,
            told_at: Instant::now(),
            outbound: Out::Wanted(None),
            broken: 0,
            malformed: 0,
            is_ignored: false,
            tells: VecDeque::new(),
        }
    }

    fn accept(&mut self, stream: Stream, protocol: Protocol) {
        if self.is_ignored || self.unread.len() >= self.limits.unread_max {
            tracing::debug!("refused a stream");
            return;
        }
        self.unread.push_back((stream, protocol));
    }

    /// Whether there was a stream to be read from now on.
    fn read_more(&mut self) -> bool {
        let before = self.inbound.len();
        while self.inbound.len() < self.limits.inbound_max
            && let Some((stream, protocol)) = self.unread.pop_front()
        {
            let max = self.limits.message_bytes_max;
            let inbound = Inbound::new(stream, max, self.arrivals.clone());
            self.inbound.push(inbound.speaking(protocol));
        }
        self.inbound.len() > before
    }

    fn malformed(&mut self, error: String) -> Tell {
        self.malformed += 1;
        Tell::Malformed { error, so_far: self.malformed }
    }

    /// A stream to the other side is open. Leaves have two: what is said is not to wait for blocks.
    fn opened(&mut self, stream: Outbound<Stream>, protocol: Protocol) {
        match std::mem::replace(&mut self.outbound, Out::Opening) {
            Out::HalfOpen { words, .. } if protocol == Protocol::Leaves => {
                self.is_open(Lanes::two(words, stream), protocol);
            }
            Out::HalfOpen { words, .. } => self.is_open(Lanes::one(words), Protocol::Leaves),
            _ if protocol == Protocol::Leaves => {
                self.outbound = Out::HalfOpen { words: stream, is_asked: false };
            }
            _ => self.is_open(Lanes::one(stream), protocol),
        }
    }

    fn is_open(&mut self, lanes: Lanes<Stream>, protocol: Protocol) {
        self.outbound = Out::Open { lanes: Box::new(lanes), protocol };
        self.tells.push_back(Tell::Opened { protocol });
    }

    fn not_opened(&mut self, error: StreamUpgradeError<Infallible>) {
        match (std::mem::replace(&mut self.outbound, Out::Unsupported), error) {
            // One will do.
            (Out::HalfOpen { words, .. }, _) => self.is_open(Lanes::one(words), Protocol::Leaves),
            (_, StreamUpgradeError::NegotiationFailed) => self.tells.push_back(Tell::Unsupported),
            (_, error) => {
                tracing::debug!(%error, "could not open a stream");
                self.reopen();
            }
        }
    }

    fn reopen(&mut self) {
        let pause = REOPEN_AFTER * 2u32.pow(self.broken.min(REOPEN_DOUBLINGS_MAX));
        self.broken += 1;
        self.outbound = Out::Wanted(Some(Box::pin(sleep(pause))));
    }

    fn poll_outbound(&mut self, cx: &mut Context<'_>) -> Poll<HandlerEvent> {
        match &mut self.outbound {
            Out::Wanted(pause) => {
                if let Some(pause) = pause
                    && pause.as_mut().poll(cx).is_pending()
                {
                    return Poll::Pending;
                }
                self.outbound = Out::Opening;
                let protocol = SubstreamProtocol::new(self.offer.clone(), ());
                Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest { protocol })
            }
            Out::HalfOpen { is_asked, .. } => {
                if std::mem::replace(is_asked, true) {
                    return Poll::Pending;
                }
                let protocol = SubstreamProtocol::new(self.offer.clone(), ());
                Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest { protocol })
            }
            Out::Open { lanes, .. } => match lanes.poll_written(cx) {
                Poll::Ready(Ok(bytes)) => {
                    self.broken = 0;
                    Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(Tell::Written { bytes }))
                }
                Poll::Ready(Err(error)) => {
                    tracing::debug!(%error, "a stream broke");
                    self.reopen();
                    Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(Tell::Closed))
                }
                Poll::Pending => Poll::Pending,
            },
            Out::Opening | Out::Unsupported => Poll::Pending,
        }
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Tell> {
        self.read_more();
        loop {
            let next = match self.inbound.poll_next_unpin(cx) {
                Poll::Ready(Some(next)) => next,
                _ if self.read_more() => continue,
                _ => break,
            };
            match next {
                Ok(frame) => {
                    let bytes = frame.bytes.len();
                    self.told_at = Instant::now();
                    return Poll::Ready(match wire::decode(&frame.bytes, frame.protocol) {
                        Ok(message) => Tell::Message { message, bytes, place: frame.place },
                        Err(error) => self.malformed(error),
                    });
                }
                // Streams break when their peer goes away: nobody's fault.
                Err(InboundError::Broken(error)) => tracing::debug!(%error, "a stream broke"),
                Err(error) => return Poll::Ready(self.malformed(error.to_string())),
            }
        }
        if self.arrivals.take_note() && self.told_at.elapsed() >= ARRIVING_EVERY {
            self.told_at = Instant::now();
            return Poll::Ready(Tell::Arriving);
        }
        Poll::Pending
    }
}

impl ConnectionHandler for Handler {
    type FromBehaviour = Ask;
    type ToBehaviour = Tell;
    type InboundProtocol = Offer;
    type OutboundProtocol = Offer;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = ();

    fn listen_protocol(&self) -> SubstreamProtocol<Offer, ()> {
        SubstreamProtocol::new(self.offer.clone(), ())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<HandlerEvent> {
        if let Some(tell) = self.tells.pop_front() {
            return Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(tell));
        }
        if let Poll::Ready(event) = self.poll_outbound(cx) {
            return Poll::Ready(event);
        }
        if self.is_ignored {
            return Poll::Pending;
        }
        self.poll_inbound(cx).map(ConnectionHandlerEvent::NotifyBehaviour)
    }

    fn on_behaviour_event(&mut self, ask: Ask) {
        match (ask, &mut self.outbound) {
            (Ask::Send(message), Out::Open { lanes, protocol }) => lanes.push(message, *protocol),
            // The stream broke while the message was on its way here; `Closed` says so.
            (Ask::Send(_), _) => {}
            (Ask::Ignore, _) => {
                self.is_ignored = true;
                self.inbound.clear();
                self.unread.clear();
            }
        }
    }

    fn on_connection_event(&mut self, event: ConnectionEvent<'_, Offer, Offer>) {
        match event {
            ConnectionEvent::FullyNegotiatedInbound(inbound) => {
                let (stream, protocol) = inbound.protocol;
                self.accept(stream, protocol);
            }
            ConnectionEvent::FullyNegotiatedOutbound(outbound) => {
                let (stream, protocol) = outbound.protocol;
                self.opened(Outbound::new(stream), protocol);
            }
            ConnectionEvent::DialUpgradeError(DialUpgradeError { error, .. }) => {
                self.not_opened(error);
            }
            _ => {}
        }
    }
}
