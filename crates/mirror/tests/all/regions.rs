//! Regions that take blobs from each other.

use std::path::PathBuf;

use watchfire_mirror::MirrorSettings;
use watchfire_mirror::oci::Digest;
use watchfire_testkit::{HttpServer, eventually_async, response};

use crate::fleet::{address_of, fleet};
use crate::support::{TestMirror, head_only, mirror};

/// A layer of one block, and a larger one.
fn layers(large: u32) -> Vec<Vec<u8>> {
    let large = (0..large).map(|at| (at / 251 + at % 251) as u8).collect();
    vec![b"a layer of one block".to_vec(), large]
}

fn registry(layers: Vec<Vec<u8>>) -> HttpServer {
    HttpServer::start(move |seen| {
        let found = layers.iter().find(|one| seen.path.contains(&Digest::sha256(one).hex()));
        let answer = response("200 OK", &[], found.expect("a layer"));
        Some(if seen.method == "HEAD" { head_only(answer) } else { answer })
    })
}

/// Starts a host of a region. Each link is a host and the price of its region.
async fn host(
    server: &HttpServer,
    region: &str,
    join: Option<&TestMirror>,
    links: &[(&str, String, f64)],
    credentials: Option<PathBuf>,
) -> TestMirror {
    let join = match join {
        Some(other) => vec![address_of(other).await],
        None => Vec::new(),
    };
    let links = links.iter().map(|(name, address, price)| {
        format!("{name}={address},price={price}").parse().expect("a link")
    });
    let change = |settings: &mut MirrorSettings| {
        fleet(join)(settings);
        settings.credentials = credentials.into_iter().collect();
        let fleet = settings.fleet.as_mut().expect("a fleet");
        fleet.region = Some(region.parse().expect("a region"));
        fleet.links = links.collect();
    };
    mirror(&[format!("registry.example=http://{}", server.address)], change).await
}

async fn link(to: &TestMirror) -> String {
    address_of(to).await.to_string()
}

async fn pull(host: &TestMirror, layers: &[Vec<u8>]) {
    for layer in layers {
        let answer = host.get(&format!("/v2/a/blobs/{}", Digest::sha256(layer))).await;
        assert!(answer.status == 200 && answer.body == *layer, "status {}", answer.status);
    }
}

/// The bytes that a host got from each linked region.
async fn received(host: &TestMirror) -> Vec<(String, u64)> {
    let regions = host.running.fleet().await.expect("a fleet").regions;
    regions.into_iter().map(|region| (region.name, region.received_bytes)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_region_takes_one_copy_from_the_cheapest_region_that_has_the_blob() {
    // More than a segment, so that several hosts have a lease.
    let layers = layers(17_000_000);
    let total: u64 = layers.iter().map(|layer| layer.len() as u64).sum();
    let server = registry(layers.clone());
    let eu = host(&server, "eu", None, &[], None).await;
    pull(&eu, &layers).await;
    let sent = server.count("GET", "/blobs/");
    let us = host(&server, "us", None, &[("eu", link(&eu).await, 2.0)], None).await;
    let links = [("eu", link(&eu).await, 3.0), ("us", link(&us).await, 0.5)];
    let first = host(&server, "asia", None, &links, None).await;
    let second = host(&server, "asia", Some(&first), &links, None).await;
    eventually_async("the hosts of a region find each other", async || {
        second.running.fleet().await.expect("a fleet").known_hosts == 1
    })
    .await;
    // The cheapest region does not have it yet.
    pull(&first, &layers[..1]).await;
    let small = layers[0].len() as u64;
    assert_eq!(received(&first).await, [("us".to_owned(), 0), ("eu".to_owned(), small)]);
    pull(&us, &layers).await;
    assert_eq!(received(&us).await, [("eu".to_owned(), total)]);
    let large = &layers[1..];
    tokio::join!(pull(&first, large), pull(&second, large));
    pull(&second, &layers).await;
    let hosts = [received(&first).await, received(&second).await];
    let crossed: u64 = hosts.iter().map(|regions| regions[0].1).sum();
    assert!(crossed >= large[0].len() as u64 && crossed <= total * 6 / 5, "{hosts:?}");
    assert_eq!(hosts[1][1].1, 0, "the dearer region sends nothing");
    assert_eq!(server.count("GET", "/blobs/"), sent, "the registry sends nothing more");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_cheaper_region_that_answers_the_registry_is_asked() {
    let layers = layers(3_000_000);
    let server = registry(layers.clone());
    let eu = host(&server, "eu", None, &[], None).await;
    pull(&eu, &layers).await;
    let address = link(&eu).await;
    let dear = host(&server, "us", None, &[("eu", address.clone(), 10.0)], None).await;
    eu.running.stop().await;
    let alone = host(&server, "asia", None, &[("eu", address, 1.0)], None).await;
    for one in [dear, alone] {
        let sent = server.count("GET", "/blobs/");
        pull(&one, &layers).await;
        assert!(server.count("GET", "/blobs/") >= sent + layers.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_blob_is_given_only_to_a_region_with_the_same_credentials() {
    let layers = layers(3_000_000);
    let server = registry(layers.clone());
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, auth: &str| {
        let path = folder.path().join(name);
        let text = format!(r#"{{"auths":{{"registry.example":{{"auth":"{auth}"}}}}}}"#);
        std::fs::write(&path, text).expect("a file");
        Some(path)
    };
    let own = file("own", "dXNlcjpwYXNz");
    let eu = host(&server, "eu", None, &[], own.clone()).await;
    pull(&eu, &layers).await;
    let links = [("eu", link(&eu).await, 1.0)];
    for credentials in [None, file("other", "dXNlcjpvdGhlcg==")] {
        let sent = server.count("GET", "/blobs/");
        let other = host(&server, "us", None, &links, credentials).await;
        pull(&other, &layers).await;
        assert_eq!(received(&other).await, [("eu".to_owned(), 0)]);
        assert!(server.count("GET", "/blobs/") >= sent + layers.len());
    }
    let sent = server.count("GET", "/blobs/");
    let same = host(&server, "us", None, &links, own).await;
    pull(&same, &layers).await;
    assert_eq!(server.count("GET", "/blobs/"), sent);
}
