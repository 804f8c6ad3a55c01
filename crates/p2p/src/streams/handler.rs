//! The Bitswap streams of one connection.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::SelectAll;
use libp2p::Stream;
use libp2p::swarm::handler::{ConnectionEvent, DialUpgradeError};
use libp2p::swarm::{
    ConnectionHandler, ConnectionHandlerEvent, StreamUpgradeError, SubstreamProtocol,
};
use tokio::time::{Sleep, sleep};
use watchfire_bitswap::{Message, Protocol};

use super::message_reader::{MessageReader, ReadError};
use super::message_writer::MessageWriter;
use super::protocols::{self, SupportedProtocols};
use super::receive_budget::{HostReceiveBudget, ReceiveBudget, Reservation};
use super::send_streams::SendStreams;
use crate::settings::StreamLimits;

/// The first pause before a failed stream is opened again. It doubles with each failure.
const REOPEN_AFTER: Duration = Duration::from_millis(100);
const REOPEN_DOUBLINGS_MAX: u32 = 8;

/// The shortest time between two [`HandlerEvent::Receiving`].
const RECEIVING_INTERVAL: Duration = Duration::from_millis(100);

/// A command of the behaviour to the handler of a connection.
#[derive(Debug)]
pub(crate) enum HandlerCommand {
    /// Send this message in the encoding of the negotiated protocol.
    Send(Message),
    /// Close the receiving streams and accept no more of them.
    StopReceiving,
}

#[derive(Debug)]
pub(crate) enum HandlerEvent {
    /// Messages can be sent from now on.
    Opened { protocol: Protocol },
    /// Messages can no longer be sent. Those that were not written are lost.
    Closed,
    /// The other side does not support Bitswap.
    Unsupported,
    /// Part of a long message arrived.
    Receiving,
    /// A complete message arrived.
    Message { message: Message, bytes: usize, reservation: Reservation },
    /// Bytes of messages, as counted by [`protocols::encoded_len`], were written to the network.
    Written { bytes: usize },
    /// A malformed message arrived. `count` is the number of such messages on this connection.
    Malformed { error: String, count: u32 },
}

type SwarmHandlerEvent = ConnectionHandlerEvent<SupportedProtocols, (), HandlerEvent>;

/// Sends and receives messages on one connection.
pub(crate) struct Handler {
    limits: StreamLimits,
    protocols: SupportedProtocols,
    readers: SelectAll<MessageReader<Stream>>,
    /// Streams that wait until other streams have ended. They are not rejected, because most carry
    /// a response that is not sent again.
    unread: VecDeque<(Stream, Protocol)>,
    budget: ReceiveBudget,
    receiving_reported_at: Instant,
    send_state: SendState,
    /// Failures of the sending stream since the last write.
    failures: u32,
    malformed_messages: u32,
    has_stopped_receiving: bool,
    /// At most one event of each kind between two polls.
    events: VecDeque<HandlerEvent>,
}

enum SendState {
    /// The stream is opened after the pause.
    Closed(Option<Pin<Box<Sleep>>>),
    Opening,
    /// The control stream is open. The stream for blocks is opened next.
    ControlOpen {
        control: MessageWriter<Stream>,
        is_requested: bool,
    },
    Open {
        streams: Box<SendStreams<Stream>>,
        protocol: Protocol,
    },
    /// The other side rejected all protocols.
    Unsupported,
}

impl Handler {
    pub(super) fn new(
        limits: StreamLimits,
        host_budget: HostReceiveBudget,
        protocols: SupportedProtocols,
    ) -> Self {
        Handler {
            protocols,
            readers: SelectAll::new(),
            unread: VecDeque::new(),
            budget: ReceiveBudget::new(limits.receiving_bytes_max, host_budget),
            limits,
            receiving_reported_at: Instant::now(),
            send_state: SendState::Closed(None),
            failures: 0,
            malformed_messages: 0,
            has_stopped_receiving: false,
            events: VecDeque::new(),
        }
    }

    fn accept(&mut self, stream: Stream, protocol: Protocol) {
        if self.has_stopped_receiving || self.unread.len() >= self.limits.unread_streams_max {
            tracing::debug!("rejected a stream");
            return;
        }
        self.unread.push_back((stream, protocol));
    }

    /// Starts to read waiting streams. Returns whether there was one.
    fn read_waiting_streams(&mut self) -> bool {
        let before = self.readers.len();
        while self.readers.len() < self.limits.inbound_streams_max
            && let Some((stream, protocol)) = self.unread.pop_front()
        {
            let max = self.limits.message_bytes_max;
            let reader = MessageReader::new(stream, max, self.budget.clone());
            self.readers.push(reader.with_protocol(protocol));
        }
        self.readers.len() > before
    }

    fn malformed(&mut self, error: String) -> HandlerEvent {
        self.malformed_messages += 1;
        HandlerEvent::Malformed { error, count: self.malformed_messages }
    }

    /// A sending stream is open. The leaves protocol has two of them.
    fn handle_opened(&mut self, stream: MessageWriter<Stream>, protocol: Protocol) {
        match std::mem::replace(&mut self.send_state, SendState::Opening) {
            SendState::ControlOpen { control, .. } if protocol == Protocol::Leaves => {
                self.set_open(SendStreams::split(control, stream), protocol);
            }
            SendState::ControlOpen { control, .. } => {
                self.set_open(SendStreams::single(control), Protocol::Leaves);
            }
            _ if protocol == Protocol::Leaves => {
                self.send_state = SendState::ControlOpen { control: stream, is_requested: false };
            }
            _ => self.set_open(SendStreams::single(stream), protocol),
        }
    }

    fn set_open(&mut self, streams: SendStreams<Stream>, protocol: Protocol) {
        self.send_state = SendState::Open { streams: Box::new(streams), protocol };
        self.events.push_back(HandlerEvent::Opened { protocol });
    }

    fn handle_not_opened(&mut self, error: StreamUpgradeError<Infallible>) {
        match (std::mem::replace(&mut self.send_state, SendState::Unsupported), error) {
            // One stream is enough.
            (SendState::ControlOpen { control, .. }, _) => {
                self.set_open(SendStreams::single(control), Protocol::Leaves);
            }
            (_, StreamUpgradeError::NegotiationFailed) => {
                self.events.push_back(HandlerEvent::Unsupported);
            }
            (_, error) => {
                tracing::debug!(%error, "cannot open a stream");
                self.reopen();
            }
        }
    }

    fn reopen(&mut self) {
        let pause = REOPEN_AFTER * 2u32.pow(self.failures.min(REOPEN_DOUBLINGS_MAX));
        self.failures += 1;
        self.send_state = SendState::Closed(Some(Box::pin(sleep(pause))));
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<SwarmHandlerEvent> {
        match &mut self.send_state {
            SendState::Closed(pause) => {
                if let Some(pause) = pause
                    && pause.as_mut().poll(cx).is_pending()
                {
                    return Poll::Pending;
                }
                self.send_state = SendState::Opening;
                let protocol = SubstreamProtocol::new(self.protocols.clone(), ());
                Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest { protocol })
            }
            SendState::ControlOpen { is_requested, .. } => {
                if std::mem::replace(is_requested, true) {
                    return Poll::Pending;
                }
                let protocol = SubstreamProtocol::new(self.protocols.clone(), ());
                Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest { protocol })
            }
            SendState::Open { streams, .. } => match streams.poll_written(cx) {
                Poll::Ready(Ok(bytes)) => {
                    self.failures = 0;
                    let event = HandlerEvent::Written { bytes };
                    Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(event))
                }
                Poll::Ready(Err(error)) => {
                    tracing::debug!(%error, "a sending stream failed");
                    self.reopen();
                    Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(HandlerEvent::Closed))
                }
                Poll::Pending => Poll::Pending,
            },
            SendState::Opening | SendState::Unsupported => Poll::Pending,
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<HandlerEvent> {
        self.read_waiting_streams();
        loop {
            let next = match self.readers.poll_next_unpin(cx) {
                Poll::Ready(Some(next)) => next,
                _ if self.read_waiting_streams() => continue,
                _ => break,
            };
            match next {
                Ok(raw) => {
                    let bytes = raw.bytes.len();
                    self.receiving_reported_at = Instant::now();
                    return Poll::Ready(match protocols::decode(&raw.bytes, raw.protocol) {
                        Ok(message) => {
                            HandlerEvent::Message { message, bytes, reservation: raw.reservation }
                        }
                        Err(error) => self.malformed(error),
                    });
                }
                // A peer that disconnects breaks its streams. This is not a protocol error.
                Err(ReadError::Broken(error)) => {
                    tracing::debug!(%error, "a receiving stream failed");
                }
                Err(error) => return Poll::Ready(self.malformed(error.to_string())),
            }
        }
        if self.budget.take_progress() && self.receiving_reported_at.elapsed() >= RECEIVING_INTERVAL
        {
            self.receiving_reported_at = Instant::now();
            return Poll::Ready(HandlerEvent::Receiving);
        }
        Poll::Pending
    }
}

impl ConnectionHandler for Handler {
    type FromBehaviour = HandlerCommand;
    type ToBehaviour = HandlerEvent;
    type InboundProtocol = SupportedProtocols;
    type OutboundProtocol = SupportedProtocols;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = ();

    fn listen_protocol(&self) -> SubstreamProtocol<SupportedProtocols, ()> {
        SubstreamProtocol::new(self.protocols.clone(), ())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<SwarmHandlerEvent> {
        if let Some(event) = self.events.pop_front() {
            return Poll::Ready(ConnectionHandlerEvent::NotifyBehaviour(event));
        }
        if let Poll::Ready(event) = self.poll_send(cx) {
            return Poll::Ready(event);
        }
        if self.has_stopped_receiving {
            return Poll::Pending;
        }
        self.poll_receive(cx).map(ConnectionHandlerEvent::NotifyBehaviour)
    }

    fn on_behaviour_event(&mut self, command: HandlerCommand) {
        match (command, &mut self.send_state) {
            (HandlerCommand::Send(message), SendState::Open { streams, protocol }) => {
                streams.push(message, *protocol);
            }
            // The stream failed while the command was in the queue; `Closed` reports that.
            (HandlerCommand::Send(_), _) => {}
            (HandlerCommand::StopReceiving, _) => {
                self.has_stopped_receiving = true;
                self.readers.clear();
                self.unread.clear();
            }
        }
    }

    fn on_connection_event(
        &mut self,
        event: ConnectionEvent<'_, SupportedProtocols, SupportedProtocols>,
    ) {
        match event {
            ConnectionEvent::FullyNegotiatedInbound(inbound) => {
                let (stream, protocol) = inbound.protocol;
                self.accept(stream, protocol);
            }
            ConnectionEvent::FullyNegotiatedOutbound(outbound) => {
                let (stream, protocol) = outbound.protocol;
                self.handle_opened(MessageWriter::new(stream), protocol);
            }
            ConnectionEvent::DialUpgradeError(DialUpgradeError { error, .. }) => {
                self.handle_not_opened(error);
            }
            _ => {}
        }
    }
}
