//! Content routing: telling others what is here, and finding who has what is not.

use std::collections::HashMap;

use bitswap::SessionId;
use content::{Cid, Codec};
use libp2p::kad::store::MemoryStore;
use libp2p::kad::{self, GetProvidersOk, QueryId, QueryResult, RecordKey};
use libp2p::multiaddr::Protocol as Part;
use libp2p::swarm::Swarm;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::{Multiaddr, PeerId, StreamProtocol, identify};
use tokio::sync::oneshot;

use super::RoutingError;
use crate::behaviour::Behaviour;
use crate::settings::{Dht, HostSettings};

/// Providers of one block that are dialled; the others are not needed.
const PROVIDERS_MAX: usize = 10;
/// Searches and announcements under way; further ones are answered with failure at once.
const QUERIES_MAX: usize = 256;

type FindReply = oneshot::Sender<Result<Vec<PeerId>, RoutingError>>;
type ProvideReply = oneshot::Sender<Result<(), RoutingError>>;

/// What Kademlia was asked.
#[derive(Debug)]
enum Asked {
    Find { asker: Asker, found: Vec<PeerId> },
    Provide(ProvideReply),
}

/// Who wants to know.
#[derive(Debug)]
enum Asker {
    Session(SessionId),
    Caller(FindReply),
}

#[derive(Debug)]
pub(super) struct Routing {
    is_on: bool,
    protocol: String,
    bootstrap: Vec<(PeerId, Multiaddr)>,
    asked: HashMap<QueryId, Asked>,
}

impl Routing {
    pub(super) fn new(settings: &HostSettings) -> Self {
        let bootstrap = settings.bootstrap.iter().filter_map(peer_and_address).collect();
        let protocol = settings.dht_protocol.clone();
        Routing { is_on: settings.dht != Dht::Off, protocol, bootstrap, asked: HashMap::new() }
    }

    /// Tells Kademlia whom to ask first.
    pub(super) fn begin(&mut self, swarm: &mut Swarm<Behaviour>) {
        if let Some(kad) = swarm.behaviour_mut().kad.as_mut() {
            for (peer, address) in self.bootstrap.drain(..) {
                kad.add_address(&peer, address);
            }
        }
    }

    /// Whether the search is under way; its end comes out of [`Routing::handle`].
    pub(super) fn find(
        &mut self,
        swarm: &mut Swarm<Behaviour>,
        session: SessionId,
        cid: &Cid,
    ) -> bool {
        let Ok(kad) = self.kad(swarm) else { return false };
        let query = kad.get_providers(key_of(cid));
        self.asked.insert(query, Asked::Find { asker: Asker::Session(session), found: Vec::new() });
        true
    }

    pub(super) fn find_for_caller(
        &mut self,
        swarm: &mut Swarm<Behaviour>,
        cid: &Cid,
        reply: FindReply,
    ) {
        match self.kad(swarm) {
            Ok(kad) => {
                let query = kad.get_providers(key_of(cid));
                let asker = Asker::Caller(reply);
                self.asked.insert(query, Asked::Find { asker, found: Vec::new() });
            }
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// Kademlia, if it may be asked something more.
    fn kad<'a>(
        &self,
        swarm: &'a mut Swarm<Behaviour>,
    ) -> Result<&'a mut kad::Behaviour<MemoryStore>, RoutingError> {
        if self.asked.len() >= QUERIES_MAX {
            let error = format!("{QUERIES_MAX} queries are under way, and no more are allowed");
            return Err(RoutingError::Failed(error));
        }
        swarm.behaviour_mut().kad.as_mut().ok_or(RoutingError::Off)
    }

    pub(super) fn provide(&mut self, swarm: &mut Swarm<Behaviour>, cid: &Cid, reply: ProvideReply) {
        let started = self.kad(swarm).and_then(|kad| {
            let query = kad.start_providing(key_of(cid));
            query.map_err(|error| RoutingError::Failed(error.to_string()))
        });
        match started {
            Ok(query) => drop(self.asked.insert(query, Asked::Provide(reply))),
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// Tells nobody any more that a block is here; who was told forgets it with time.
    pub(super) fn unprovide(&mut self, swarm: &mut Swarm<Behaviour>, cid: &Cid) {
        if let Some(kad) = swarm.behaviour_mut().kad.as_mut() {
            kad.stop_providing(&key_of(cid));
        }
    }

    /// Searches that are over, and whom they found.
    pub(super) fn handle(
        &mut self,
        swarm: &mut Swarm<Behaviour>,
        event: kad::Event,
    ) -> Option<(SessionId, Vec<PeerId>)> {
        let kad::Event::OutboundQueryProgressed { id, result, step, .. } = event else {
            return None;
        };
        match result {
            QueryResult::GetProviders(result) => {
                if let Ok(GetProvidersOk::FoundProviders { providers, .. }) = result
                    && let Some(Asked::Find { asker, found }) = self.asked.get_mut(&id)
                {
                    for peer in providers {
                        if found.len() < PROVIDERS_MAX && !found.contains(&peer) {
                            found.push(peer);
                            if matches!(asker, Asker::Session(_)) {
                                dial(swarm, peer);
                            }
                        }
                    }
                }
                if !step.last {
                    return None;
                }
                match self.asked.remove(&id)? {
                    Asked::Find { asker: Asker::Session(session), found } => Some((session, found)),
                    Asked::Find { asker: Asker::Caller(reply), found } => {
                        let _ = reply.send(Ok(found));
                        None
                    }
                    Asked::Provide(_) => None,
                }
            }
            QueryResult::StartProviding(result) => {
                if let Some(Asked::Provide(reply)) = self.asked.remove(&id) {
                    let result = result.map(drop);
                    let _ = reply.send(result.map_err(|e| RoutingError::Failed(e.to_string())));
                }
                None
            }
            _ => None,
        }
    }

    /// Peers that speak Kademlia are told to it.
    pub(super) fn identified(&mut self, swarm: &mut Swarm<Behaviour>, event: identify::Event) {
        let identify::Event::Received { peer_id, info, .. } = event else { return };
        let speaks_it = |protocol: &StreamProtocol| protocol.as_ref() == self.protocol;
        if !self.is_on || !info.protocols.iter().any(speaks_it) {
            return;
        }
        if let Some(kad) = swarm.behaviour_mut().kad.as_mut() {
            for address in info.listen_addrs {
                kad.add_address(&peer_id, address);
            }
        }
    }
}

fn dial(swarm: &mut Swarm<Behaviour>, peer: PeerId) {
    if !swarm.is_connected(&peer) && *swarm.local_peer_id() != peer {
        let options = DialOpts::peer_id(peer).build();
        if let Err(error) = swarm.dial(options) {
            tracing::debug!(%peer, %error, "cannot dial a provider");
        }
    }
}

/// Kademlia goes by the hash alone, as do stores.
fn key_of(cid: &Cid) -> RecordKey {
    let version_1 = Cid::v1(Codec::RAW, cid.hash().clone()).encode();
    // A version and a codec, of a byte each, are in front of the hash.
    RecordKey::from(version_1[2..].to_vec())
}

fn peer_and_address(address: &Multiaddr) -> Option<(PeerId, Multiaddr)> {
    let mut rest = address.clone();
    match rest.pop() {
        Some(Part::P2p(peer)) => Some((peer, rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_a_cid_are_found_under_its_hash() {
        let cid: Cid = "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH".parse().unwrap();
        assert_eq!(key_of(&cid).as_ref(), cid.encode());
        let other = Cid::v1(Codec::DAG_PB, cid.hash().clone());
        assert_eq!(key_of(&other), key_of(&cid));
    }
}
