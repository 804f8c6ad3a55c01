//! Hosts of one fleet.

use std::net::SocketAddr;
use std::time::Duration;

use watchfire_mirror::{FleetSettings, MirrorSettings};

use crate::support::{
    DOCKER, Server, TestMirror, head_only, manifest_of, manifest_response, mirror,
};

fn fleet(join: Vec<SocketAddr>) -> impl FnOnce(&mut MirrorSettings) {
    move |settings| {
        settings.fleet = Some(FleetSettings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            join,
            join_dns: Vec::new(),
            mdns: false,
            key: [7; 32],
            region: None,
            identity: None,
            leases_per_blob: 4,
        });
    }
}

/// The address of a host for other hosts, from `/ip4/127.0.0.1/tcp/1234/p2p/...`.
async fn address_of(host: &TestMirror) -> SocketAddr {
    let status = host.running.fleet().await.expect("it is a member of a fleet");
    let text = status.addresses.first().expect("it listens").to_string();
    let parts: Vec<&str> = text.split('/').collect();
    format!("{}:{}", parts[2], parts[4]).parse().expect("an address")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_fetches_each_manifest_once() {
    let manifest = manifest_of(&[b"x"]);
    let server = Server::start(move |seen| {
        let answer = manifest_response(DOCKER, &manifest);
        Some(if seen.method == "HEAD" { head_only(answer) } else { answer })
    });
    let upstreams = [format!("registry.example=http://{}", server.address)];
    let first = mirror(&upstreams, fleet(Vec::new())).await;
    let join = vec![address_of(&first).await];
    let hosts = [
        mirror(&upstreams, fleet(join.clone())).await,
        mirror(&upstreams, fleet(join)).await,
        first,
    ];
    let all_known = async {
        for host in &hosts {
            while host.running.fleet().await.expect("a fleet").known_hosts < 2 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all_known)
        .await
        .expect("the hosts find each other");
    for host in &hosts {
        let answer = host.get("/v2/a/manifests/v1").await;
        assert_eq!(answer.status, 200);
    }
    assert_eq!(server.count("GET", "/manifests/"), 1);
    assert_eq!(server.count("HEAD", "/manifests/"), 3, "each host asks what the tag names");
}
