//! Content routing: announcing blocks and finding their providers through Kademlia.

use std::collections::HashMap;

use libp2p::kad::store::MemoryStore;
use libp2p::kad::{self, GetProvidersOk, QueryId, QueryResult, RecordKey};
use libp2p::multiaddr::Protocol as Part;
use libp2p::swarm::Swarm;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::{Multiaddr, PeerId, StreamProtocol, identify};
use tokio::sync::oneshot;
use watchfire_bitswap::SessionId;
use watchfire_content::{Cid, Codec};

use crate::behaviour::Behaviour;
use crate::command::RoutedPeer;
use crate::error::RoutingError;
use crate::settings::{Dht, HostSettings};

/// Most providers of one block that a search returns.
const PROVIDERS_MAX: usize = 10;
/// Queries that run at a time. Further queries fail.
const QUERIES_MAX: usize = 256;

type ClosestReply = oneshot::Sender<Result<Vec<RoutedPeer>, RoutingError>>;
type FindReply = oneshot::Sender<Result<Vec<PeerId>, RoutingError>>;
type ProvideReply = oneshot::Sender<Result<(), RoutingError>>;

#[derive(Debug)]
enum Query {
    Find { requester: Requester, found: Vec<PeerId> },
    Provide(ProvideReply),
    Closest(ClosestReply),
}

#[derive(Debug)]
enum Requester {
    Session(SessionId),
    Caller(FindReply),
}

/// Runs queries for the exchange and for callers.
#[derive(Debug)]
pub(super) struct Routing {
    is_enabled: bool,
    searches_providers: bool,
    protocol: String,
    /// Added to Kademlia when the host starts.
    bootstrap: Vec<(PeerId, Multiaddr)>,
    queries: HashMap<QueryId, Query>,
}

impl Routing {
    pub(super) fn new(settings: &HostSettings) -> Self {
        let known = settings.bootstrap.iter().chain(&settings.dht_peers);
        let bootstrap = known.filter_map(peer_and_address).collect();
        let protocol = settings.dht_protocol.clone();
        let is_enabled = settings.dht != Dht::Off;
        let searches_providers = settings.searches_providers;
        Routing { is_enabled, searches_providers, protocol, bootstrap, queries: HashMap::new() }
    }

    pub(super) fn start(&mut self, swarm: &mut Swarm<Behaviour>) {
        if let Some(kad) = swarm.behaviour_mut().kad.as_mut() {
            for (peer, address) in self.bootstrap.drain(..) {
                kad.add_address(&peer, address);
            }
        }
    }

    /// Searches providers for a session of the exchange. Returns whether the search started.
    /// [`Routing::handle_event`] returns its result.
    pub(super) fn find_for_session(
        &mut self,
        swarm: &mut Swarm<Behaviour>,
        session: SessionId,
        cid: &Cid,
    ) -> bool {
        if !self.searches_providers {
            return false;
        }
        let Ok(kad) = self.kad(swarm) else { return false };
        let query = kad.get_providers(key_of(cid));
        let requester = Requester::Session(session);
        self.queries.insert(query, Query::Find { requester, found: Vec::new() });
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
                let requester = Requester::Caller(reply);
                self.queries.insert(query, Query::Find { requester, found: Vec::new() });
            }
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// Searches the peers that are closest to a key.
    pub(super) fn find_closest(
        &mut self,
        swarm: &mut Swarm<Behaviour>,
        key: Vec<u8>,
        reply: ClosestReply,
    ) {
        match self.kad(swarm) {
            Ok(kad) => {
                let query = kad.get_closest_peers(key);
                self.queries.insert(query, Query::Closest(reply));
            }
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// Returns Kademlia if another query may start.
    fn kad<'a>(
        &self,
        swarm: &'a mut Swarm<Behaviour>,
    ) -> Result<&'a mut kad::Behaviour<MemoryStore>, RoutingError> {
        if self.queries.len() >= QUERIES_MAX {
            let error = format!("the limit of {QUERIES_MAX} queries is reached: try again later");
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
            Ok(query) => drop(self.queries.insert(query, Query::Provide(reply))),
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// Stops announcing a block. Records that other peers store expire with time.
    pub(super) fn stop_providing(&mut self, swarm: &mut Swarm<Behaviour>, cid: &Cid) {
        if let Some(kad) = swarm.behaviour_mut().kad.as_mut() {
            kad.stop_providing(&key_of(cid));
        }
    }

    /// Handles an event of Kademlia. Returns the session and the providers of a finished search.
    pub(super) fn handle_event(
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
                    && let Some(Query::Find { requester, found }) = self.queries.get_mut(&id)
                {
                    for peer in providers {
                        if found.len() < PROVIDERS_MAX && !found.contains(&peer) {
                            found.push(peer);
                            if matches!(requester, Requester::Session(_)) {
                                dial(swarm, peer);
                            }
                        }
                    }
                }
                if !step.last {
                    return None;
                }
                match self.queries.remove(&id)? {
                    Query::Find { requester: Requester::Session(session), found } => {
                        Some((session, found))
                    }
                    Query::Find { requester: Requester::Caller(reply), found } => {
                        let _ = reply.send(Ok(found));
                        None
                    }
                    Query::Provide(_) | Query::Closest(_) => None,
                }
            }
            QueryResult::GetClosestPeers(result) => {
                if step.last
                    && let Some(Query::Closest(reply)) = self.queries.remove(&id)
                {
                    // After a timeout, some peers may have been found.
                    let peers = match result {
                        Ok(found) => found.peers,
                        Err(kad::GetClosestPeersError::Timeout { peers, .. }) => peers,
                    };
                    let found = peers
                        .into_iter()
                        .map(|peer| RoutedPeer { peer: peer.peer_id, addresses: peer.addrs });
                    let _ = reply.send(Ok(found.collect()));
                }
                None
            }
            QueryResult::StartProviding(result) => {
                if let Some(Query::Provide(reply)) = self.queries.remove(&id) {
                    let result = result.map(drop);
                    let _ = reply.send(result.map_err(|e| RoutingError::Failed(e.to_string())));
                }
                None
            }
            _ => None,
        }
    }

    /// Adds a peer to Kademlia if it supports the DHT protocol of this network.
    pub(super) fn handle_identify(&mut self, swarm: &mut Swarm<Behaviour>, event: identify::Event) {
        let identify::Event::Received { peer_id, info, .. } = event else { return };
        let is_kademlia = |protocol: &StreamProtocol| protocol.as_ref() == self.protocol;
        if !self.is_enabled || !info.protocols.iter().any(is_kademlia) {
            return;
        }
        if let Some(kad) = swarm.behaviour_mut().kad.as_mut() {
            for address in info.listen_addrs {
                kad.add_address(&peer_id, address);
            }
        }
    }
}

pub(super) fn known_peers(swarm: &mut Swarm<Behaviour>) -> Vec<RoutedPeer> {
    let Some(kad) = swarm.behaviour_mut().kad.as_mut() else { return Vec::new() };
    let buckets = kad.kbuckets();
    let peers = buckets.flat_map(|bucket| {
        let peers = bucket.iter().map(|entry| RoutedPeer {
            peer: *entry.node.key.preimage(),
            addresses: entry.node.value.iter().cloned().collect(),
        });
        peers.collect::<Vec<_>>()
    });
    peers.collect()
}

fn dial(swarm: &mut Swarm<Behaviour>, peer: PeerId) {
    if !swarm.is_connected(&peer) && *swarm.local_peer_id() != peer {
        let options = DialOpts::peer_id(peer).build();
        if let Err(error) = swarm.dial(options) {
            tracing::debug!(%peer, %error, "cannot dial a provider");
        }
    }
}

/// The key of a block is its multihash, without the version and the codec of the CID.
fn key_of(cid: &Cid) -> RecordKey {
    let version_1 = Cid::v1(Codec::RAW, cid.hash().clone()).encode();
    // The version and the codec take one byte each.
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
    fn all_cids_of_one_hash_have_the_same_key() {
        let cid: Cid = "QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH".parse().unwrap();
        assert_eq!(key_of(&cid).as_ref(), cid.encode());
        let other = Cid::v1(Codec::DAG_PB, cid.hash().clone());
        assert_eq!(key_of(&other), key_of(&cid));
    }
}
