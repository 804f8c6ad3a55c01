//! The requests of a host and of its peers.

use std::collections::HashMap;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use libp2p::PeerId;
use libp2p::request_response::{Event, Message, OutboundRequestId, ResponseChannel};
use libp2p::swarm::Swarm;
use tokio::sync::oneshot;

use crate::behaviour::Behaviour;
use crate::requests::{InboundRequest, InboundSender, RequestError};

type Reply = oneshot::Sender<Result<Bytes, RequestError>>;
type Answer = (ResponseChannel<Bytes>, Option<Bytes>);

/// Passes requests and responses between callers and peers.
#[derive(Default)]
pub(super) struct Requests {
    /// The caller that answers the requests of peers. Without one they fail.
    inbound: Option<InboundSender>,
    /// Responses that the caller prepares. Bounded by the queue of the caller and by the streams of
    /// each peer.
    answers: FuturesUnordered<BoxFuture<'static, Answer>>,
    /// The requests of callers, which time out.
    outbound: HashMap<OutboundRequestId, (PeerId, Reply)>,
}

impl Requests {
    /// Passes the requests of peers to this caller from now on.
    pub(super) fn set_inbound(&mut self, inbound: InboundSender) {
        self.inbound = Some(inbound);
    }

    pub(super) fn send(
        &mut self,
        swarm: &mut Swarm<Behaviour>,
        peer: PeerId,
        bytes: Bytes,
        reply: Reply,
    ) {
        match swarm.behaviour_mut().requests.as_mut() {
            Some(requests) => {
                let id = requests.send_request(&peer, bytes);
                self.outbound.insert(id, (peer, reply));
            }
            None => drop(reply.send(Err(RequestError::Off))),
        }
    }

    /// Waits for a response that the caller prepared; `None` while it prepares none.
    pub(super) async fn next_answer(&mut self) -> Option<Answer> {
        self.answers.next().await
    }

    /// Sends a response to a peer, which may have gone meanwhile.
    pub(super) fn handle_answer(&mut self, swarm: &mut Swarm<Behaviour>, answer: Answer) {
        // A dropped channel fails the request at the peer.
        let (channel, Some(bytes)) = answer else { return };
        if let Some(requests) = swarm.behaviour_mut().requests.as_mut() {
            let _ = requests.send_response(channel, bytes);
        }
    }

    pub(super) fn handle_event(&mut self, event: Event<Bytes, Bytes>) {
        match event {
            Event::Message { peer, message: Message::Request { request, channel, .. }, .. } => {
                let (reply, response) = oneshot::channel();
                let request = InboundRequest { peer, bytes: request, reply };
                let is_queued =
                    self.inbound.as_ref().is_some_and(|inbound| inbound.try_send(request).is_ok());
                if is_queued {
                    self.answers.push(Box::pin(async move { (channel, response.await.ok()) }));
                }
            }
            Event::Message { message: Message::Response { request_id, response }, .. } => {
                if let Some((_, reply)) = self.outbound.remove(&request_id) {
                    let _ = reply.send(Ok(response));
                }
            }
            Event::OutboundFailure { request_id, error, .. } => {
                if let Some((peer, reply)) = self.outbound.remove(&request_id) {
                    let cause = error.to_string();
                    let _ = reply.send(Err(RequestError::Failed { peer, cause }));
                }
            }
            Event::InboundFailure { peer, error, .. } => {
                tracing::debug!(%peer, %error, "a request of a peer failed");
            }
            Event::ResponseSent { .. } => {}
        }
    }
}
