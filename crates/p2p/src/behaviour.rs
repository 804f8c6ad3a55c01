//! The libp2p protocols of a host.

use std::time::Duration;

use libp2p::connection_limits::{self, ConnectionLimits};
use libp2p::identity::Keypair;
use libp2p::kad::store::{MemoryStore, MemoryStoreConfig};
use libp2p::swarm::NetworkBehaviour;
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::{StreamProtocol, identify, kad, ping};

use crate::requests::{self, RequestBehaviour};
use crate::settings::{Dht, HostSettings};
use crate::streams::{BitswapStreams, SupportedProtocols};

/// Consecutive pings without an answer after which a connection is closed.
pub(crate) const UNANSWERED_PINGS_MAX: u32 = 4;

#[derive(NetworkBehaviour)]
pub(crate) struct Behaviour {
    limits: connection_limits::Behaviour,
    pub(crate) streams: BitswapStreams,
    identify: identify::Behaviour,
    ping: ping::Behaviour,
    pub(crate) kad: Toggle<kad::Behaviour<MemoryStore>>,
    pub(crate) requests: Toggle<RequestBehaviour>,
    #[cfg(feature = "mdns")]
    pub(crate) mdns: Toggle<libp2p::mdns::tokio::Behaviour>,
}

impl Behaviour {
    pub(crate) fn new(
        keypair: &Keypair,
        kad_protocol: StreamProtocol,
        settings: &HostSettings,
    ) -> Self {
        let limits = &settings.limits;
        let connections = ConnectionLimits::default()
            .with_max_established(Some(limits.connections_max))
            .with_max_established_per_peer(Some(limits.connections_per_peer_max))
            .with_max_pending_incoming(Some(limits.handshakes_max))
            .with_max_pending_outgoing(Some(limits.handshakes_max));
        let public = keypair.public();
        let identify = identify::Config::new("ipfs/0.1.0".to_owned(), public.clone())
            .with_agent_version(settings.agent.clone());
        // A machine under load answers late, but its connection works.
        let ping = ping::Config::new().with_timeout(Duration::from_secs(30));
        let kad = (settings.dht != Dht::Off).then(|| {
            let id = public.to_peer_id();
            let store = MemoryStore::with_config(id, MemoryStoreConfig::default());
            let mut kad = kad::Behaviour::with_config(id, store, kad::Config::new(kad_protocol));
            kad.set_mode(Some(match settings.dht {
                Dht::Server => kad::Mode::Server,
                Dht::Client | Dht::Off => kad::Mode::Client,
            }));
            kad
        });
        Behaviour {
            limits: connection_limits::Behaviour::new(connections),
            streams: BitswapStreams::new(
                limits.streams.clone(),
                limits.receiving_bytes_max,
                SupportedProtocols::new(settings.leaves),
            ),
            identify: identify::Behaviour::new(identify),
            ping: ping::Behaviour::new(ping),
            kad: kad.into(),
            requests: settings.requests.as_ref().and_then(requests::behaviour).into(),
            #[cfg(feature = "mdns")]
            mdns: local_discovery(settings, public.to_peer_id()),
        }
    }
}

/// The behaviour that discovers peers of the local network, if the settings say so.
#[cfg(feature = "mdns")]
fn local_discovery(
    settings: &HostSettings,
    own: libp2p::PeerId,
) -> Toggle<libp2p::mdns::tokio::Behaviour> {
    use libp2p::mdns;
    use libp2p::multiaddr::Protocol as Part;
    let is_v6 = |address: &libp2p::Multiaddr| matches!(address.iter().next(), Some(Part::Ip6(_)));
    let config =
        mdns::Config { enable_ipv6: settings.listen.iter().all(is_v6), ..mdns::Config::default() };
    let started = settings.local_discovery.then(|| mdns::tokio::Behaviour::new(config, own));
    let behaviour = started.transpose().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot discover the hosts of the local network by mDNS");
        None
    });
    behaviour.into()
}
