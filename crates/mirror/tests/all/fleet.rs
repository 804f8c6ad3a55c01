//! Hosts of one fleet.

use std::fs::File;
use std::io::{BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::thread::sleep;
use std::time::Duration;

use watchfire_mirror::oci::Digest;
use watchfire_mirror::{FleetSettings, MirrorSettings};
use watchfire_testkit::{HttpServer, Received, Request, eventually_async, response, serve};

use crate::support::{DOCKER, TestMirror, head_only, manifest_of, manifest_response, mirror};

/// The key of the fleet.
pub(crate) const KEY: [u8; 32] = [7; 32];

pub(crate) fn fleet(join: Vec<SocketAddr>) -> impl FnOnce(&mut MirrorSettings) {
    move |settings| {
        settings.fleet = Some(FleetSettings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            join,
            join_dns: Vec::new(),
            mdns: false,
            key: KEY,
            key_before: None,
            region: None,
            links: Vec::new(),
            registry_price: 10.0,
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
    start_fleet_with(server, count, |_, _| {}).await
}

/// Hosts that know each other. `change` changes the settings of the host with a number.
pub(crate) async fn start_fleet_with(
    server: &HttpServer,
    count: usize,
    change: impl Fn(usize, &mut MirrorSettings),
) -> Vec<TestMirror> {
    let upstreams = [format!("registry.example=http://{}", server.address)];
    let mut hosts: Vec<TestMirror> = Vec::new();
    while hosts.len() < count {
        let join = match hosts.first() {
            Some(first) => vec![address_of(first).await],
            None => Vec::new(),
        };
        let set = |settings: &mut MirrorSettings| {
            fleet(join)(settings);
            change(hosts.len(), settings);
        };
        let host = mirror(&upstreams, set).await;
        hosts.push(host);
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
pub(crate) fn file_of(host: &TestMirror, digest: &Digest) -> PathBuf {
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

/// Containerd would fetch the layer from the registry itself, although it is behind others in the queue of the link.
#[tokio::test(flavor = "multi_thread")]
async fn a_layer_that_waits_behind_another_one_on_a_busy_link_is_not_absent() {
    let (busy, waiting) = (vec![1_u8; 1 << 20], b"a layer that comes late".to_vec());
    let (busy_digest, digest) = (Digest::sha256(&busy), Digest::sha256(&waiting));
    let (layers, is_sent) = ([busy, waiting.clone()], Arc::new(Barrier::new(2)));
    let registry = serve(move |mut stream| {
        let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
        while let Some(seen) = Received::read(&mut reader) {
            let layer = layers.iter().find(|one| seen.path.contains(&Digest::sha256(one).hex()));
            let answer = response("200 OK", &[], layer.expect("a layer"));
            let is_busy = answer.len() > 1 << 20;
            let parts = match seen.method.as_str() {
                "HEAD" => vec![head_only(answer)],
                _ if is_busy => answer.chunks(answer.len() / 100).map(<[u8]>::to_vec).collect(),
                _ => {
                    is_sent.wait();
                    vec![answer]
                }
            };
            for (number, part) in parts.iter().enumerate() {
                // The client may have left.
                let _ = stream.write_all(part);
                if parts.len() > 1 {
                    sleep(Duration::from_millis(20));
                }
                if number == 90 {
                    is_sent.wait();
                }
            }
        }
    });
    let upstreams = [format!("registry.example=http://{registry}")];
    let host = mirror(&upstreams, |settings| {
        fleet(Vec::new())(settings);
        settings.first_byte_timeout = Duration::from_millis(500);
    })
    .await;
    let (busy_path, path) = (format!("/v2/a/blobs/{busy_digest}"), format!("/v2/a/blobs/{digest}"));
    let (first, second) = tokio::join!(host.get(&busy_path), host.get(&path));
    assert_eq!((first.status, first.body.len()), (200, 1 << 20));
    assert_eq!((second.status, second.body), (200, waiting));
}

/// A registry of these layers, with an image of all but the last. `before` is called before an answer to `GET`.
fn registry_of(
    layers: &[Vec<u8>],
    before: impl Fn(&Received) + Clone + Send + 'static,
) -> HttpServer {
    let image: Vec<&[u8]> = layers[..layers.len() - 1].iter().map(Vec::as_slice).collect();
    let (manifest, served) = (manifest_of(&image), layers.to_vec());
    HttpServer::start(move |seen| {
        let found = served.iter().find(|one| seen.path.contains(&Digest::sha256(one).hex()));
        let answer = match found {
            Some(layer) => response("200 OK", &[], layer),
            None => manifest_response(DOCKER, &manifest),
        };
        if seen.method == "HEAD" {
            return Some(head_only(answer));
        }
        before(seen);
        Some(answer)
    })
}

/// Layers that have begun end, but nobody will ask for the next one.
#[tokio::test(flavor = "multi_thread")]
async fn no_layer_is_fetched_ahead_for_a_client_that_has_left() {
    let layers: Vec<Vec<u8>> = (0..4).map(|layer| vec![layer; 3 << 20]).collect();
    let digests: Vec<Digest> = layers.iter().map(|layer| Digest::sha256(layer)).collect();
    let path = |layer: usize| format!("/v2/a/blobs/{}", digests[layer]);
    let (gate, first) = (Arc::new(Barrier::new(2)), path(0));
    let has_left = gate.clone();
    let server = registry_of(&layers, move |seen| {
        if seen.path == first {
            has_left.wait();
        }
    });
    let hosts = start_fleet(&server, 1).await;
    let is_asked = |layer: usize| server.count("GET", &path(layer)) > 0;
    assert_eq!(hosts[0].get("/v2/a/manifests/v1").await.status, 200);
    let client = Request::new("GET", &path(0)).send(hosts[0].running.address());
    let mut client = client.expect("the mirror listens");
    eventually_async("the layer is on its way", async || is_asked(0)).await;
    client.shutdown(Shutdown::Write).unwrap();
    client.read_to_end(&mut Vec::new()).expect("the mirror ends the connection");
    gate.wait();
    let file = file_of(&hosts[0], &digests[0]);
    eventually_async("the layer is here", async || file.exists()).await;
    // Without the rule, the next one would be asked for before this one has passed.
    assert_eq!(hosts[0].get(&path(3)).await.body, layers[3]);
    assert!(!is_asked(1));
    assert_eq!(hosts[0].get(&path(1)).await.body, layers[1]);
    eventually_async("a client is there again", async || is_asked(2)).await;
}

/// Containerd asks for three layers at a time. The link of a slow registry would be unused until one of them is here.
#[tokio::test(flavor = "multi_thread")]
async fn later_layers_of_an_image_are_fetched_ahead_and_earlier_ones_and_those_of_others_are_not() {
    let layers: Vec<Vec<u8>> = (0..7).map(|layer| vec![layer; 3 << 20]).collect();
    let server = registry_of(&layers, |_| {});
    let hosts = start_fleet(&server, 2).await;
    let path = |layer: usize| format!("/v2/a/blobs/{}", Digest::sha256(&layers[layer]));
    let is_asked = |layer: usize| server.count("GET", &path(layer)) > 0;
    assert_eq!(hosts[0].get(&path(6)).await.status, 200);
    assert_eq!(hosts[0].get("/v2/a/manifests/v1").await.status, 200);
    assert_eq!(hosts[0].get(&path(1)).await.body, layers[1]);
    eventually_async("three layers after it are fetched", async || (2..5).all(is_asked)).await;
    assert!(!is_asked(0), "the client may have it already");
    assert!(!is_asked(5), "three are ahead");
    assert_eq!(hosts[0].get(&path(2)).await.body, layers[2]);
    eventually_async("a further one is fetched", async || is_asked(5)).await;
    for (layer, bytes) in layers.iter().enumerate() {
        assert_eq!(hosts[0].get(&path(layer)).await.body, *bytes);
    }
}
