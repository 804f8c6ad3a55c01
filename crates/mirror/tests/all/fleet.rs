//! Hosts of one fleet.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use watchfire_mirror::oci::Digest;
use watchfire_mirror::{FleetSettings, MirrorSettings};
use watchfire_testkit::{HttpServer, eventually_async, response};

use crate::support::{DOCKER, TestMirror, head_only, manifest_of, manifest_response, mirror};

pub(crate) fn fleet(join: Vec<SocketAddr>) -> impl FnOnce(&mut MirrorSettings) {
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
pub(crate) async fn address_of(host: &TestMirror) -> SocketAddr {
    let status = host.running.fleet().await.expect("it is a member of a fleet");
    let text = status.addresses.first().expect("it listens").to_string();
    let parts: Vec<&str> = text.split('/').collect();
    format!("{}:{}", parts[2], parts[4]).parse().expect("an address")
}

/// Hosts that know each other.
pub(crate) async fn start_fleet(server: &HttpServer, count: usize) -> Vec<TestMirror> {
    let upstreams = [format!("registry.example=http://{}", server.address)];
    let first = mirror(&upstreams, fleet(Vec::new())).await;
    let join = vec![address_of(&first).await];
    let mut hosts = vec![first];
    while hosts.len() < count {
        hosts.push(mirror(&upstreams, fleet(join.clone())).await);
    }
    for host in &hosts {
        eventually_async("the hosts find each other", async || {
            host.running.fleet().await.expect("a fleet").known_hosts + 1 >= count
        })
        .await;
    }
    hosts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_fetches_each_manifest_once() {
    let manifest = manifest_of(&[b"x"]);
    let server = HttpServer::start(move |seen| {
        let answer = manifest_response(DOCKER, &manifest);
        Some(if seen.method == "HEAD" { head_only(answer) } else { answer })
    });
    let hosts = start_fleet(&server, 3).await;
    for host in &hosts {
        let answer = host.get("/v2/a/manifests/v1").await;
        assert_eq!(answer.status, 200);
    }
    assert_eq!(server.count("GET", "/manifests/"), 1);
    assert_eq!(server.count("HEAD", "/manifests/"), 3, "each host asks what the tag names");
}

/// The file of a blob in the store of a host.
fn file_of(host: &TestMirror, digest: &Digest) -> PathBuf {
    let hex = digest.hex();
    host.store.path().join("blobs/sha256").join(&hex[..2]).join(hex)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_a_damaged_copy_is_passed_over_and_the_registry_is_asked() {
    let small = b"a layer of one block".to_vec();
    let large: Vec<u8> = (0..3 << 20).map(|at: u32| (at / 251 + at % 251) as u8).collect();
    let layers = [small, large];
    let served = layers.clone();
    let server = HttpServer::start(move |seen| {
        let found = served.iter().find(|one| seen.path.contains(&Digest::sha256(one).hex()));
        let answer = response("200 OK", &[], found.expect("a layer"));
        Some(if seen.method == "HEAD" { head_only(answer) } else { answer })
    });
    let hosts = start_fleet(&server, 2).await;
    for layer in &layers {
        let digest = Digest::sha256(layer);
        let path = format!("/v2/a/blobs/{digest}");
        let before = server.count("GET", &path);
        assert_eq!(hosts[0].get(&path).await.body, *layer);
        let file = File::options().write(true).open(file_of(&hosts[0], &digest)).unwrap();
        file.write_all_at(b"damage", 5).unwrap();
        assert_eq!(hosts[1].get(&path).await.body, *layer);
        assert!(server.count("GET", &path) >= before + 2, "both hosts asked the registry");
        assert_eq!(hosts[0].get(&path).await.body, *layer);
    }
}
