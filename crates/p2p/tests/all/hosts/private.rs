use watchfire_p2p::{Dht, HostSettings};

use super::{Node, settings, wait_until, within};

fn with_key(key: Option<[u8; 32]>) -> HostSettings {
    HostSettings { swarm_key: key, ..settings() }
}

#[tokio::test]
async fn only_peers_with_the_swarm_key_can_connect() {
    let member = Node::with(with_key(Some([7; 32]))).await;
    let other_member = Node::with(with_key(Some([7; 32]))).await;
    let root = member.add(300_000, 1);
    other_member.connect(&member).await;
    other_member.fetch(&root).await;
    assert!(other_member.has(&root));

    for key in [None, Some([8; 32])] {
        let outsider = Node::with(with_key(key)).await;
        let address = member.host.addresses()[0].clone();
        assert!(within(outsider.host.connect(address)).await.is_err(), "{key:?} was accepted");
        let back = outsider.host.addresses()[0].clone();
        assert!(within(member.host.connect(back)).await.is_err(), "{key:?} was dialled");
    }
}

#[tokio::test]
async fn only_peers_with_the_network_key_can_connect() {
    let with = |network_key| HostSettings { network_key, ..settings() };
    let member = Node::with(with(Some([7; 32]))).await;
    let other_member = Node::with(with(Some([7; 32]))).await;
    let root = member.add(300_000, 1);
    other_member.connect(&member).await;
    other_member.fetch(&root).await;
    assert!(other_member.has(&root));

    for outsider in [with(None), with(Some([8; 32])), with_key(Some([7; 32]))] {
        let outsider = Node::with(outsider).await;
        let address = member.host.addresses()[0].clone();
        assert!(within(outsider.host.connect(address)).await.is_err());
        let back = outsider.host.addresses()[0].clone();
        assert!(within(member.host.connect(back)).await.is_err());
    }
}

#[tokio::test]
async fn hosts_with_the_new_key_with_the_old_one_and_with_both_connect() {
    let with = |keys: &[u8]| {
        let key = |at: usize| keys.get(at).map(|byte| [*byte; 32]);
        HostSettings { network_key: key(0), network_key_before: key(1), ..settings() }
    };
    let sets: [&[u8]; 6] = [&[1], &[2, 1], &[1, 2], &[2], &[3, 2], &[4, 3]];
    let mut hosts = Vec::new();
    for keys in sets {
        hosts.push((keys, Node::with(with(keys)).await));
    }
    for (keys, host) in &hosts {
        for (others, other) in hosts.iter().filter(|(others, _)| others != keys) {
            let connected = within(host.host.connect(other.host.addresses()[0].clone())).await;
            let is_common = keys.iter().any(|key| others.contains(key));
            assert_eq!(connected.is_ok(), is_common, "{keys:?} with {others:?}");
            if is_common {
                host.host.disconnect(other.host.peer_id()).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn quic_is_rejected_in_a_private_network() {
    let listen = vec!["/ip4/127.0.0.1/udp/0/quic-v1".parse().unwrap()];
    let settings = HostSettings { listen, ..with_key(Some([7; 32])) };
    let store = std::sync::Arc::new(watchfire_store::LockedMemoryStore::new(0));
    let started =
        watchfire_p2p::Host::start(settings, watchfire_store::Stores::default(), store).await;
    assert!(matches!(started, Err(watchfire_p2p::StartError::Listen { .. })));
}

#[tokio::test]
async fn a_bootstrap_peer_is_dialled_at_the_start() {
    let first = Node::start().await;
    let bootstrap = vec![first.host.addresses()[0].clone()];
    let node = Node::with(HostSettings { bootstrap, ..settings() }).await;
    let root = first.add(10, 1);
    node.fetch(&root).await;
}

#[tokio::test]
async fn a_root_is_found_through_hosts_that_do_not_have_it() {
    let bootstrap_node = Node::with(HostSettings { dht: Dht::Server, ..settings() }).await;
    let bootstrap = vec![bootstrap_node.host.addresses()[0].clone()];
    let with = || HostSettings { dht: Dht::Server, bootstrap: bootstrap.clone(), ..settings() };
    let (provider, leecher) = (Node::with(with()).await, Node::with(with()).await);
    let root = provider.add(2_000_000, 2);
    // Kademlia adds a peer when the protocols of the peer are known.
    wait_until(async || bootstrap_node.stats().await.peers == 2).await;
    wait_until(async || {
        within(provider.host.provide(root.clone())).await.is_ok()
            && within(leecher.host.find_providers(root.clone())).await
                == Ok(vec![provider.host.peer_id()])
    })
    .await;
    leecher.fetch(&root).await;
    assert_eq!(leecher.blocks(), provider.blocks());
    assert_eq!(bootstrap_node.blocks(), 0);
}

#[tokio::test]
async fn providing_fails_while_routing_is_off() {
    let node = Node::start().await;
    let root = node.add(10, 3);
    assert_eq!(node.host.provide(root.clone()).await, Err(watchfire_p2p::RoutingError::Off));
    assert_eq!(node.host.find_providers(root).await, Err(watchfire_p2p::RoutingError::Off));
}
