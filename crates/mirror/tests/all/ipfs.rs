//! Blobs and images by their CIDs, between mirrors, libp2p hosts and a registry.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use watchfire_content::{Block, Cid, DirectoryBuilder, FileBuilder, Profile, Root};
use watchfire_mirror::MirrorSettings;
use watchfire_mirror::oci::Digest;
use watchfire_p2p::{Host, HostSettings};
use watchfire_store::{LockedMemoryStore, Stores, WriteBlocks as _};
use watchfire_testkit::{HttpServer, Received, eventually_async, response};

use crate::fleet::fleet;
use crate::support::{DOCKER, TestMirror, head_only, manifest_response, mirror, start};

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

/// A registry that is down while the flag is set.
fn registry_with_outages(content: (Vec<u8>, Vec<Vec<u8>>)) -> (HttpServer, Arc<AtomicBool>) {
    let is_down = Arc::new(AtomicBool::new(false));
    let down = is_down.clone();
    let refuses =
        move |_: &Received| down.load(Ordering::Relaxed).then(|| response("503 Down", &[], b""));
    (registry(content, refuses), is_down)
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

/// The CIDs of an image: of its folder, its manifest, its configuration and its layers. `None`: not public.
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

/// A peer with these blocks.
async fn peer(blocks: &[Block]) -> (Host, Vec<String>) {
    let store = Arc::new(LockedMemoryStore::new(64 << 20));
    blocks.iter().for_each(|block| store.put(block).unwrap());
    let peer = Host::start(host(&[]), Stores::default(), store).await.unwrap();
    let addresses = peer.addresses().iter().map(ToString::to_string).collect();
    (peer, addresses)
}

fn keep_in(blocks: &mut Vec<Block>) -> impl FnMut(Block) -> Result<(), Infallible> {
    |block| {
        blocks.push(block);
        Ok(())
    }
}

/// The blocks of a file, and its root.
fn file(bytes: &[u8]) -> (Vec<Block>, Root) {
    let mut blocks = Vec::new();
    let mut keep = keep_in(&mut blocks);
    let mut builder = FileBuilder::new(Profile::KUBO_DEFAULT).unwrap();
    builder.write(bytes, &mut keep).unwrap();
    let root = builder.finish(&mut keep).unwrap();
    drop(keep);
    (blocks, root)
}

/// The folder of an image whose blobs are files under these digests.
fn folder_of(manifest: &[u8], blobs: &[(Digest, &[u8])]) -> (Vec<Block>, Cid) {
    let mut all = Vec::new();
    let folder = |entries: Vec<(String, Root)>, all: &mut Vec<Block>| {
        let mut builder = DirectoryBuilder::new(Profile::KUBO_DEFAULT);
        entries.iter().for_each(|(name, root)| builder.insert(name, root).unwrap());
        builder.finish(&mut keep_in(all)).unwrap()
    };
    let mut add = |bytes: &[u8]| {
        let (blocks, root) = file(bytes);
        all.extend(blocks);
        root
    };
    let digest = Digest::sha256(manifest);
    let index = format!(r#"{{"manifests":[{{"digest":"{digest}"}}]}}"#);
    let index = add(index.as_bytes());
    let mut files = vec![(digest.hex(), add(manifest))];
    files.extend(blobs.iter().map(|(digest, bytes)| (digest.hex(), add(bytes))));
    let files = folder(files, &mut all);
    let blobs = folder(vec![("sha256".to_owned(), files)], &mut all);
    let entries = vec![("blobs".to_owned(), blobs), ("index.json".to_owned(), index)];
    let root = folder(entries, &mut all);
    // The name of a repository is of lower-case letters.
    (all, Cid::v1(root.cid.codec(), root.cid.hash().clone()))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_pulled_by_its_cid_and_a_layer_that_left_the_store_is_not_served() {
    let layers = [content(2_500_000), b"small".to_vec(), Vec::new()];
    let (manifest, blobs) = image_of(&layers);
    let server = registry((manifest.clone(), blobs.clone()), |_| None);
    let first = mirror(&[url(&server)], with_ipfs(&[])).await;
    pull(&first, &blobs).await;
    let cids = all_cids(&first, &manifest).await;
    let mut builder = FileBuilder::new(Profile::V1_1_MIB).unwrap();
    let mut drop_block = |_| Ok::<(), Infallible>(());
    builder.write(&layers[0], &mut drop_block).unwrap();
    assert_eq!(cids[3], builder.finish(&mut drop_block).unwrap().cid.to_string());

    let before = server.received().len();
    let second = mirror(&[], with_ipfs(&first.running.ipfs_addresses().unwrap())).await;
    for other in [&second, &first] {
        for name in [format!("ipfs/{}", cids[0]), format!("other.example/ipfs/{}", cids[0])] {
            let answer = other.get(&format!("/v2/{name}/manifests/latest")).await;
            assert_eq!((answer.status, &answer.body), (200, &manifest), "{}", answer.text());
            assert_eq!(answer.header("content-type"), DOCKER);
            for blob in &blobs {
                let path = format!("/v2/{name}/blobs/{}", Digest::sha256(blob));
                assert_eq!(other.request("HEAD", &path, &[]).await.status, 200);
                let range = if blob.is_empty() { &[][..] } else { &["Range: bytes=0-"] };
                let answer = other.request("GET", &path, range).await;
                assert!(answer.is_complete && answer.body == *blob, "{}", answer.text());
            }
        }
    }
    assert_eq!(server.received().len(), before, "the registry is not asked");
    // It publishes what it has from peers.
    assert_eq!(all_cids(&second, &manifest).await, cids);

    let hex = Digest::sha256(&layers[0]).hex();
    let path = first.store.path().join("blobs/sha256").join(&hex[..2]).join(&hex);
    std::fs::remove_file(&path).unwrap();
    let (reader, _) = peer(&[]).await;
    reader.connect(first.running.ipfs_addresses().unwrap()[0].parse().unwrap()).await.unwrap();
    let leaf = Block::raw(layers[0][..1 << 20].to_vec().into()).unwrap();
    let fetch = async |cid: Cid| {
        let mut fetch = reader.fetch_block(cid).await.unwrap();
        tokio::time::timeout(std::time::Duration::from_millis(500), fetch.finished()).await.is_ok()
    };
    assert!(fetch(cids[4].parse().unwrap()).await, "the small layer is there");
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

    // The folder of a peer names the private layer, and has other bytes for it.
    let digest = Digest::sha256(&blobs[1]);
    let (blocks, image) = folder_of(&manifest, &[(digest.clone(), &content(1_500_001)[1..])]);
    let (_peer, addresses) = peer(&blocks).await;
    let store = private.store;
    private.running.stop().await;
    let again = TestMirror { running: restart(&store, with_ipfs(&addresses)).await, store };
    assert_eq!(again.get(&format!("/v2/ipfs/{image}/manifests/v1")).await.status, 200);
    let answer = again.get(&format!("/v2/ipfs/{image}/blobs/{digest}")).await;
    assert!(!answer.is_complete || answer.status != 200, "{}", answer.status);
    assert_ne!(answer.body, blobs[1]);
    assert!(public_cids(&again, &manifest).await[3].is_none());
    // The request has not removed the layer of the private repository.
    let hex = digest.hex();
    let path = again.store.path().join("blobs/sha256").join(&hex[..2]).join(&hex);
    assert_eq!(std::fs::read(path).unwrap(), blobs[1]);

    // containerd has pulled it with a password of its own.
    let of_containerd = folder.path().join("sha256");
    std::fs::create_dir(&of_containerd).unwrap();
    std::fs::write(of_containerd.join(digest.hex()), &blobs[1]).unwrap();
    let beside = mirror(&[], |settings| {
        settings.containerd_blobs = Some(folder.path().to_owned());
        with_ipfs(&addresses)(settings);
    });
    let beside = beside.await;
    assert_eq!(beside.get(&format!("/v2/ipfs/{image}/manifests/v1")).await.status, 200);
    assert_eq!(beside.get(&format!("/v2/ipfs/{image}/blobs/{digest}")).await.status, 404);
    assert!(public_cids(&beside, &manifest).await[3].is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_of_the_fleet_does_not_become_public_by_the_name_of_a_peer() {
    let (manifest, blobs) = image_of(&[content(1_500_000)]);
    let server = registry((manifest.clone(), blobs.clone()), |_| None);
    let upstreams = [url(&server)];
    let first = mirror(&upstreams, fleet(Vec::new())).await;
    pull(&first, &blobs).await;
    // The folder of a peer names the layer, and has other bytes for it.
    let digest = Digest::sha256(&blobs[1]);
    let (blocks, image) = folder_of(&manifest, &[(digest.clone(), &content(1_500_001)[1..])]);
    let (_peer, addresses) = peer(&blocks).await;
    let join = vec![crate::fleet::address_of(&first).await];
    let second = mirror(&upstreams, |settings| {
        with_ipfs(&addresses)(settings);
        fleet(join)(settings);
    });
    let second = second.await;
    assert_eq!(second.get(&format!("/v2/ipfs/{image}/manifests/v1")).await.status, 200);
    let answer = second.get(&format!("/v2/ipfs/{image}/blobs/{digest}")).await;
    assert!(!answer.is_complete || answer.status != 200, "{}", answer.status);
    assert!(public_cids(&second, &manifest).await[3].is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_word_of_a_host_of_the_fleet_does_not_make_a_stored_layer_public() {
    let (manifest, blobs) = image_of(&[content(1_500_000)]);
    let (server, is_down) = registry_with_outages((manifest.clone(), blobs.clone()));
    let upstreams = [url(&server)];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    let auth = r#"{"username":"me","password":"secret"}"#;
    std::fs::write(&file, format!(r#"{{"auths":{{"registry.example":{auth}}}}}"#)).unwrap();
    let member = |join: Vec<std::net::SocketAddr>, credentials: Vec<std::path::PathBuf>| {
        move |settings: &mut MirrorSettings| {
            with_ipfs(&[])(settings);
            fleet(join)(settings);
            settings.offline_ok = true;
            settings.credentials = credentials;
        }
    };
    let first = mirror(&upstreams, member(Vec::new(), Vec::new())).await;
    pull(&first, &blobs).await;
    all_cids(&first, &manifest).await;
    let join = vec![crate::fleet::address_of(&first).await];
    let second = mirror(&upstreams, member(join, vec![file])).await;
    pull(&second, &blobs).await;
    is_down.store(true, Ordering::Relaxed);
    let path = format!("/v2/other/blobs/{}", Digest::sha256(&blobs[1]));
    eventually_async("the first host tells the CID", async || {
        let answer = second.get(&path).await;
        assert_ne!(answer.status, 200);
        answer.text().contains("cannot fetch the blob from IPFS peers")
    })
    .await;
}

/// A mirror without a registry, on the store of another one.
async fn restart(
    store: &tempfile::TempDir,
    change: impl FnOnce(&mut MirrorSettings),
) -> watchfire_mirror::RunningMirror {
    let mut settings = MirrorSettings {
        listen: "127.0.0.1:0".parse().unwrap(),
        store: store.path().to_owned(),
        ..MirrorSettings::default()
    };
    change(&mut settings);
    start(settings).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cid_without_a_peer_and_one_that_is_no_image_are_errors_that_say_so() {
    let (blocks, root) = file(b"no image");
    let no_image = Cid::v1(root.cid.codec(), root.cid.hash().clone());
    let (empty, empty_folder) = folder_of(b"{}", &[]);
    let (_peer, addresses) = peer(&[blocks, empty].concat()).await;
    let alone = mirror(&[], with_ipfs(&addresses)).await;
    let unknown = Block::raw("unknown".into()).unwrap();
    for (cid, cause) in [
        (unknown.cid(), "no IPFS peer sent"),
        (&no_image, "is that of a folder in the OCI image layout"),
        (&empty_folder, "is not a manifest"),
    ] {
        let answer = alone.get(&format!("/v2/ipfs/{cid}/manifests/latest")).await;
        assert_eq!(answer.status, 404, "{cid}");
        assert!(answer.text().contains(cause), "{}", answer.text());
    }
    for list in ["tags/list".to_owned(), format!("referrers/{}", Digest::sha256(b"a"))] {
        let answer = alone.get(&format!("/v2/ipfs/{no_image}/{list}")).await;
        assert_eq!(answer.status, 404, "{list}");
        assert!(answer.text().contains("no tags and no referrers"), "{}", answer.text());
    }
    let off = mirror(&["registry.example".to_owned()], |_| {}).await;
    let answer = off.get(&format!("/v2/ipfs/{no_image}/manifests/v1?ns=ipfs%3A%2F%2F")).await;
    assert!(answer.text().contains("--ipfs"), "{}", answer.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_registry_is_down_a_host_asks_its_fleet_for_the_cid_and_peers_for_the_blob() {
    let (manifest, blobs) = image_of(&[content(2_500_000)]);
    let (server, is_down) = registry_with_outages((manifest.clone(), blobs.clone()));
    let upstreams = [url(&server)];
    // It is not in the fleet.
    let holder = mirror(&upstreams, with_ipfs(&[])).await;
    pull(&holder, &blobs).await;
    all_cids(&holder, &manifest).await;
    let addresses = holder.running.ipfs_addresses().unwrap();
    let member = |join: Vec<std::net::SocketAddr>| {
        let addresses = addresses.clone();
        move |settings: &mut MirrorSettings| {
            with_ipfs(&addresses)(settings);
            fleet(join)(settings);
            settings.offline_ok = true;
        }
    };
    let first = mirror(&upstreams, member(Vec::new())).await;
    pull(&first, &blobs).await;
    all_cids(&first, &manifest).await;
    for blob in &blobs {
        let hex = Digest::sha256(blob).hex();
        std::fs::remove_file(first.store.path().join("blobs/sha256").join(&hex[..2]).join(&hex))
            .unwrap();
    }
    is_down.store(true, Ordering::Relaxed);
    let second = mirror(&upstreams, member(vec![crate::fleet::address_of(&first).await])).await;
    for blob in &blobs {
        let path = format!("/v2/app/blobs/{}", Digest::sha256(blob));
        eventually_async("the blob arrives", async || {
            let answer = second.get(&path).await;
            answer.status == 200 && answer.is_complete && answer.body == *blob
        })
        .await;
    }
}
