use watchfire_p2p::{Dht, HostSettings};

use crate::{Node, settings, until, within};

fn with_key(key: Option<[u8; 32]>) -> HostSettings {
    HostSettings { swarm_key: key, ..settings() }
}

#[tokio::test]
async fn a_swarm_key_lets_its_holders_in_and_keeps_strangers_out() {
    let inside = Node::with(with_key(Some([7; 32]))).await;
    let friend = Node::with(with_key(Some([7; 32]))).await;
    let root = inside.add(300_000, 1);
    friend.connect(&inside).await;
    friend.fetch(&root).await;
    assert!(friend.has(&root));

    for key in [None, Some([8; 32])] {
        let stranger = Node::with(with_key(key)).await;
        let address = inside.host.addresses()[0].clone();
        assert!(within(stranger.host.connect(address)).await.is_err(), "let in with {key:?}");
        let back = stranger.host.addresses()[0].clone();
        assert!(within(inside.host.connect(back)).await.is_err(), "let out to {key:?}");
    }
}

#[tokio::test]
async fn quic_is_refused_in_a_private_network() {
    let listen = vec!["/ip4/127.0.0.1/udp/0/quic-v1".parse().unwrap()];
    let settings = HostSettings { listen, ..with_key(Some([7; 32])) };
    let kept = std::sync::Arc::new(watchfire_store::LockedMemoryStore::new(0));
    let started =
        watchfire_p2p::Host::start(settings, watchfire_store::Stores::default(), kept).await;
    assert!(matches!(started, Err(watchfire_p2p::StartError::Listen { .. })));
}

#[tokio::test]
async fn a_bootstrap_peer_is_found_without_being_told_again() {
    let first = Node::start().await;
    let bootstrap = vec![first.host.addresses()[0].clone()];
    let node = Node::with(HostSettings { bootstrap, ..settings() }).await;
    let root = first.add(10, 1);
    node.fetch(&root).await;
}

#[tokio::test]
async fn a_root_is_found_through_hosts_that_do_not_have_it() {
    let known = Node::with(HostSettings { dht: Dht::Server, ..settings() }).await;
    let bootstrap = vec![known.host.addresses()[0].clone()];
    let with = || HostSettings { dht: Dht::Server, bootstrap: bootstrap.clone(), ..settings() };
    let (provider, seeker) = (Node::with(with()).await, Node::with(with()).await);
    let root = provider.add(2_000_000, 2);
    // Known to Kademlia once each has heard what the other speaks.
    until(async || known.stats().await.peers == 2).await;
    until(async || {
        within(provider.host.provide(root.clone())).await.is_ok()
            && within(seeker.host.find_providers(root.clone())).await
                == Ok(vec![provider.host.peer_id()])
    })
    .await;
    seeker.fetch(&root).await;
    assert_eq!(seeker.blocks(), provider.blocks());
    assert_eq!(known.blocks(), 0);
}

#[tokio::test]
async fn nothing_is_provided_while_routing_is_off() {
    let node = Node::start().await;
    let root = node.add(10, 3);
    assert_eq!(node.host.provide(root.clone()).await, Err(watchfire_p2p::RoutingError::Off));
    assert_eq!(node.host.find_providers(root).await, Err(watchfire_p2p::RoutingError::Off));
}
