//! Blobs by their CIDs, between a mirror, libp2p hosts and a registry.

use std::convert::Infallible;
use std::sync::Arc;

use watchfire_content::{Block, Cid, FileBuilder, Profile};
use watchfire_mirror::MirrorSettings;
use watchfire_mirror::oci::Digest;
use watchfire_p2p::{Host, HostSettings};
use watchfire_store::{LockedMemoryStore, Stores};
use watchfire_testkit::{HttpServer, Received, eventually_async, response};

use crate::support::{DOCKER, TestMirror, head_only, manifest_response, mirror};

fn host(bootstrap: &[String]) -> HostSettings {
    HostSettings {
        listen: vec!["/ip4/127.0.0.1/tcp/0".parse().unwrap()],
        bootstrap: bootstrap.iter().map(|address| address.parse().unwrap()).collect(),
        ..HostSettings::default()
    }
}

fn with_ipfs(bootstrap: &[String]) -> impl FnOnce(&mut MirrorSettings) {
    let host = host(bootstrap);
    move |settings| {
        settings.ipfs = Some(host);
        settings.file_first_byte_timeout = std::time::Duration::from_secs(5);
    }
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 251 + at % 251) as u8).collect()
}

/// An image with these layers: the bytes of its manifest, and of its blobs.
fn image_of(layers: &[Vec<u8>]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let descriptor = |blob: &Vec<u8>| {
        format!(r#"{{"digest":"{}","size":{}}}"#, Digest::sha256(blob), blob.len())
    };
    let config = br#"{"architecture":"amd64"}"#.to_vec();
    let named: Vec<String> = layers.iter().map(descriptor).collect();
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"{DOCKER}","config":{},"layers":[{}]}}"#,
        descriptor(&config),
        named.join(",")
    );
    (manifest.into_bytes(), [vec![config], layers.to_vec()].concat())
}

/// A registry with one image. `refuses` tells whether it refuses a request.
fn registry(
    (manifest, blobs): (Vec<u8>, Vec<Vec<u8>>),
    refuses: impl Fn(&Received) -> Option<Vec<u8>> + Clone + Send + 'static,
) -> HttpServer {
    HttpServer::start(move |seen| {
        let blob = blobs.iter().find(|blob| seen.path.contains(&Digest::sha256(blob).hex()));
        let answer = match (refuses(seen), blob) {
            (Some(refusal), _) => refusal,
            (None, Some(blob)) => response("200 OK", &[], blob),
            (None, None) => manifest_response(DOCKER, &manifest),
        };
        Some(if seen.method == "HEAD" { head_only(answer) } else { answer })
    })
}

fn url(server: &HttpServer) -> String {
    format!("registry.example=http://{}", server.address)
}

async fn pull(mirror: &TestMirror, blobs: &[Vec<u8>]) {
    assert_eq!(mirror.get("/v2/app/manifests/v1").await.status, 200);
    for blob in blobs {
        let answer = mirror.get(&format!("/v2/app/blobs/{}", Digest::sha256(blob))).await;
        assert_eq!((answer.status, answer.body == *blob), (200, true));
    }
}

/// The CIDs of an image: of its manifest, its configuration and its layers. `None`: not public.
async fn public_cids(mirror: &TestMirror, manifest: &[u8]) -> Vec<Option<String>> {
    let answer = mirror.get(&format!("/cids/{}", Digest::sha256(manifest))).await;
    let contents = answer.json_or_null();
    let public = contents.as_array().into_iter().flatten().map(|content| {
        let is_public = content["is_public"].as_bool().unwrap();
        content["cid"].as_str().filter(|_| is_public).map(str::to_owned)
    });
    public.collect()
}

/// Waits until a whole image is public, and returns its CIDs.
async fn all_cids(mirror: &TestMirror, manifest: &[u8]) -> Vec<String> {
    let all = async || public_cids(mirror, manifest).await.into_iter().collect();
    eventually_async("the image is public", async || {
        let all: Option<Vec<String>> = all().await;
        all.is_some_and(|cids| !cids.is_empty())
    })
    .await;
    let all: Option<Vec<String>> = all().await;
    all.unwrap()
}

async fn peer() -> Host {
    let store = Arc::new(LockedMemoryStore::new(64 << 20));
    Host::start(host(&[]), Stores::default(), store).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_layer_has_the_cid_of_its_bytes_and_is_not_served_when_it_has_left_the_store() {
    let layers = [content(2_500_000), b"small".to_vec(), Vec::new()];
    let (manifest, blobs) = image_of(&layers);
    let server = registry((manifest.clone(), blobs.clone()), |_| None);
    let mirror = mirror(&[url(&server)], with_ipfs(&[])).await;
    pull(&mirror, &blobs).await;
    let cids = all_cids(&mirror, &manifest).await;
    let mut builder = FileBuilder::new(Profile::V1_1_MIB).unwrap();
    let mut drop_block = |_| Ok::<(), Infallible>(());
    builder.write(&layers[0], &mut drop_block).unwrap();
    assert_eq!(cids[2], builder.finish(&mut drop_block).unwrap().cid.to_string());
    let reader = peer().await;
    reader.connect(mirror.running.ipfs_addresses().unwrap()[0].parse().unwrap()).await.unwrap();
    reader.fetch(cids[2].parse().unwrap()).await.unwrap().finished().await.unwrap();

    let hex = Digest::sha256(&layers[0]).hex();
    let path = mirror.store.path().join("blobs/sha256").join(&hex[..2]).join(&hex);
    std::fs::remove_file(&path).unwrap();
    let reader = peer().await;
    reader.connect(mirror.running.ipfs_addresses().unwrap()[0].parse().unwrap()).await.unwrap();
    let leaf = Block::raw(layers[0][..1 << 20].to_vec().into()).unwrap();
    let fetch = async |cid: Cid| {
        let mut fetch = reader.fetch_block(cid).await.unwrap();
        tokio::time::timeout(std::time::Duration::from_millis(500), fetch.finished()).await.is_ok()
    };
    assert!(fetch(cids[3].parse().unwrap()).await, "the small layer is there");
    assert!(!fetch(leaf.cid().clone()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_its_registry_gives_only_for_a_password_stays_private() {
    let (manifest, blobs) = image_of(&[content(1_500_000)]);
    let closed = |seen: &Received| {
        let challenge = "WWW-Authenticate: Basic realm=\"x\"";
        let is_open = seen.header("authorization").starts_with("Basic ");
        (!is_open).then(|| response("401 Unauthorized", &[challenge], b""))
    };
    let server = registry((manifest.clone(), blobs.clone()), closed);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    let auth = r#"{"username":"me","password":"secret"}"#;
    let with_password = format!(r#"{{"auths":{{"registry.example":{auth}}}}}"#);
    std::fs::write(&file, &with_password).unwrap();
    let upstreams = [url(&server)];
    let private = mirror(&upstreams, |settings| {
        settings.credentials = vec![file.clone()];
        with_ipfs(&[])(settings);
    });
    let private = private.await;
    pull(&private, &blobs).await;
    // The blob has been pulled with it, so it stays private also without it.
    std::fs::write(&file, "{}").unwrap();
    let asked = async || server.count("HEAD", "/blobs/") > 0;
    // Something new in the store makes the mirror look at all of it.
    eventually_async("the registry is asked without a password", async || {
        private.get("/v2/app/manifests/v1").await;
        private.get(&format!("/v2/app/manifests/{}", Digest::sha256(&manifest))).await;
        asked().await
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(public_cids(&private, &manifest).await.iter().all(Option::is_none));
}
