//! Requests and responses between hosts, and the search for the closest peers.

use std::time::Duration;

use bytes::Bytes;
use watchfire_p2p::{Dht, HostSettings, RequestError, RequestSettings};

use super::{Node, settings, within};

fn with_requests() -> HostSettings {
    let requests = RequestSettings {
        protocol: "/watchfire/test/1.0.0".into(),
        request_bytes_max: 1000,
        response_bytes_max: 2000,
        timeout: Duration::from_secs(5),
    };
    HostSettings { requests: Some(requests), ..settings() }
}

/// Answers every request with the request twice; fails one that begins with `x`.
async fn echo_twice(node: &Node) {
    let mut requests = node.host.inbound_requests().await.unwrap();
    tokio::spawn(async move {
        while let Some(request) = requests.recv().await {
            if !request.bytes.starts_with(b"x") {
                let _ =
                    request.reply.send([&request.bytes[..], &request.bytes[..]].concat().into());
            }
        }
    });
}

#[tokio::test]
async fn a_peer_answers_requests_within_its_limits() {
    let (asking, answering) =
        (Node::with(with_requests()).await, Node::with(with_requests()).await);
    echo_twice(&answering).await;
    asking.connect(&answering).await;
    let peer = answering.host.peer_id();
    let ask = async |bytes: Vec<u8>| within(asking.host.request(peer, Bytes::from(bytes))).await;
    assert_eq!(ask(b"ab".to_vec()).await.unwrap(), "abab");
    assert_eq!(ask(Vec::new()).await.unwrap(), "");
    assert_eq!(ask(vec![b'a'; 1000]).await.unwrap().len(), 2000);
    assert!(matches!(ask(vec![b'a'; 1001]).await, Err(RequestError::Failed { .. })));
    assert!(matches!(ask(b"x".to_vec()).await, Err(RequestError::Failed { .. })));
    assert_eq!(ask(b"c".to_vec()).await.unwrap(), "cc");
}

#[tokio::test]
async fn a_request_without_a_protocol_or_an_answering_peer_fails() {
    let (asking, silent) = (Node::with(with_requests()).await, Node::with(with_requests()).await);
    let off = Node::start().await;
    asking.connect(&silent).await;
    asking.connect(&off).await;
    for peer in [silent.host.peer_id(), off.host.peer_id()] {
        let result = within(asking.host.request(peer, Bytes::from_static(b"a"))).await;
        assert!(matches!(result, Err(RequestError::Failed { .. })), "{result:?}");
    }
    let result = within(off.host.request(asking.host.peer_id(), Bytes::new())).await;
    assert_eq!(result, Err(RequestError::Off));
}

#[tokio::test]
async fn every_member_of_a_network_finds_the_same_closest_peers() {
    let dht = |bootstrap| HostSettings {
        dht: Dht::Server,
        dht_protocol: "/watchfire/test/kad".into(),
        bootstrap,
        ..settings()
    };
    let first = Node::with(dht(Vec::new())).await;
    let mut nodes = vec![first];
    for _ in 0..5 {
        let bootstrap = vec![nodes[0].host.addresses()[0].clone()];
        nodes.push(Node::with(dht(bootstrap)).await);
    }
    let everyone = async || {
        let mut found = Vec::new();
        for node in &nodes {
            let peers = within(node.host.closest_peers(b"key".to_vec())).await.unwrap();
            let mut ids: Vec<_> = peers.into_iter().map(|peer| peer.peer).collect();
            found.push((node.host.peer_id(), ids.clone()));
            ids.push(node.host.peer_id());
        }
        found
    };
    within(async {
        loop {
            let found = everyone().await;
            if found.iter().all(|(_, ids)| ids.len() == nodes.len() - 1) {
                // Without the asking host, all lists have the same order.
                let order = |of: usize| {
                    let (own, ids) = &found[of];
                    let without = |list: &Vec<_>| -> Vec<_> {
                        list.iter().filter(|id| *id != own && **id != found[0].0).copied().collect()
                    };
                    (without(ids), without(&found[0].1))
                };
                for of in 1..nodes.len() {
                    let (own, reference) = order(of);
                    assert_eq!(own, reference);
                }
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}
