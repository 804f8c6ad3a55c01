//! A member of the fleet that has its key and keeps to none of its rules.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::Sha256;
use watchfire_content::{Block, Cid, Codec, Multihash};
use watchfire_mirror::oci::Digest;
use watchfire_p2p::{Dht, Host, HostSettings, PeerId, RequestSettings};
use watchfire_store::{LockedMemoryStore, Stores, WriteBlocks as _};
use watchfire_testkit::{HttpServer, eventually_async, response};

use crate::fleet::{KEY, start_fleet};
use crate::support::{TestMirror, head_only, manifest_of, manifest_response};

pub(crate) const REGISTRY: &str = "registry.example";

pub(crate) struct Liar {
    pub(crate) host: Host,
}

fn encode(head: &Value, body: &[u8]) -> Bytes {
    let head = head.to_string();
    let length = u32::try_from(head.len()).unwrap().to_be_bytes();
    [&length, head.as_bytes(), body].concat().into()
}

fn decode(bytes: &[u8]) -> (Value, &[u8]) {
    let (length, rest) = bytes.split_first_chunk::<4>().expect("a length");
    let (head, body) = rest.split_at(u32::from_be_bytes(*length) as usize);
    (serde_json::from_slice(head).expect("a head is JSON"), body)
}

impl Liar {
    /// Starts a host that has these blocks. It coordinates no blob.
    pub(crate) async fn start(blocks: &[Block]) -> Liar {
        Liar::start_with(blocks, HostSettings::default()).await
    }

    /// Starts a host that coordinates the blobs whose digests it is closest to.
    async fn start_coordinator() -> Liar {
        let dht_protocol = "/watchfire/mirror/kad/1.1.0".into();
        let settings = HostSettings { dht: Dht::Server, dht_protocol, ..HostSettings::default() };
        Liar::start_with(&[], settings).await
    }

    async fn start_with(blocks: &[Block], settings: HostSettings) -> Liar {
        let requests = RequestSettings {
            protocol: "/watchfire/mirror/1.1.0".into(),
            request_bytes_max: 1 << 20,
            response_bytes_max: 5 << 20,
            timeout: std::time::Duration::from_secs(10),
        };
        let settings = HostSettings {
            listen: vec!["/ip4/127.0.0.1/tcp/0".parse().unwrap()],
            network_key: Some(KEY),
            requests: Some(requests),
            ..settings
        };
        let store = Arc::new(LockedMemoryStore::new(64 << 20));
        blocks.iter().for_each(|block| store.put(block).unwrap());
        Liar { host: Host::start(settings, Stores::default(), store).await.unwrap() }
    }

    pub(crate) async fn connect(&self, host: &TestMirror) -> PeerId {
        let status = host.running.fleet().await.expect("it is a member of a fleet");
        self.host.connect(status.addresses[0].parse().unwrap()).await.unwrap()
    }

    pub(crate) async fn ask(&self, peer: PeerId, request: Value) -> Value {
        let answer = self.host.request(peer, encode(&request, b"")).await.expect("an answer");
        decode(&answer).0
    }

    /// Answers requests of other hosts with the bytes of a message, and never those without one. Returns the heads
    /// of the requests.
    async fn answer(
        &self,
        answer: impl Fn(&Value) -> Option<Bytes> + Send + 'static,
    ) -> Arc<Mutex<Vec<Value>>> {
        let mut requests = self.host.inbound_requests().await.unwrap();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = heads.clone();
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Some(request) = requests.recv().await {
                let (head, _) = decode(&request.bytes);
                match answer(&head) {
                    Some(answer) => drop(request.reply.send(answer)),
                    None => kept.push(request.reply),
                }
                seen.lock().push(head);
            }
        });
        heads
    }

    /// Tells a host that this one has a blob.
    async fn announce(&self, peer: PeerId, digest: &Digest) {
        let mut addresses = self.host.addresses();
        addresses.iter_mut().for_each(|address| drop(address.pop()));
        let keys = [digest.to_string()];
        let request = json!({"announce": {"keys": keys, "addresses": addresses}});
        assert_eq!(self.ask(peer, request).await, "done");
    }
}

/// The proof of a tenant's password for a request by this name, between two hosts.
pub(crate) fn proof(tenant: &str, from: PeerId, to: PeerId, name: &str) -> Value {
    use sha2::Digest as _;
    let credentials = Sha256::digest(format!("{REGISTRY}\0basic {tenant}:secret"));
    let text = format!("watchfire mirror access\0{from}\0{to}\0{name}\0");
    let inner = Sha256::new().chain_update(credentials).chain_update(text).finalize();
    let outer = Sha256::new().chain_update(credentials).chain_update(inner).finalize();
    json!({"registry": REGISTRY, "proof": STANDARD_NO_PAD.encode(outer)})
}

pub(crate) fn cid_of(bytes: &[u8]) -> Cid {
    use sha2::Digest as _;
    Cid::v1(Codec::RAW, Multihash::Sha2_256(Sha256::digest(bytes).into()))
}

/// A layer that no other number has, of one block or of three.
fn layer(number: usize, is_large: bool) -> Vec<u8> {
    let bytes = if is_large { (2 << 20) + 5_000 } else { 5_000 };
    (0..bytes).map(|at| (at / 251 + at % 251 + number * 7) as u8).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_wrong_answer_of_a_member_reaches_a_client() {
    let sent = [1 << 20, 1 << 20, 5_000, 700].map(|len| Block::raw(vec![7; len].into()).unwrap());
    let hash = |block: &Block| match block.cid().hash() {
        Multihash::Sha2_256(hash) => STANDARD_NO_PAD.encode(hash),
        Multihash::Identity(_) => unreachable!("a block has a SHA-256 hash"),
    };
    let hashes = |blocks: &[(u64, usize)]| {
        let hashes: Vec<_> =
            blocks.iter().map(|(at, one)| json!([at, hash(&sent[*one])])).collect();
        encode(&json!({"hashes": {"list": 3, "hashes": hashes}}), b"")
    };
    let many: Vec<_> = (0..50_000).map(|at| (at % 5, at as usize % 4)).collect();
    let lies = [
        encode(&json!("blob"), b"other bytes"),
        encode(&json!("blob"), b""),
        encode(&json!("blob"), &[7; 4 << 20]),
        encode(&json!("absent"), b"bytes"),
        encode(&json!({"closer": {"hosts": []}}), b""),
        Bytes::from_static(b"\xff\xff\xff\xff no message"),
        Bytes::new(),
        hashes(&[(0, 0), (1, 1), (2, 2)]),
        hashes(&[(0, 3), (1, 3), (2, 3)]),
        hashes(&[(u64::from(u32::MAX), 0), (3, 0)]),
        hashes(&[(u64::MAX, 0)]),
        hashes(&many),
    ];
    let layers: Vec<_> =
        (0..lies.len()).map(|number| [layer(number, false), layer(number, true)]).collect();
    let served = layers.concat();
    let server = HttpServer::start(move |seen| {
        let found = served.iter().find(|one| seen.path.contains(&Digest::sha256(one).hex()));
        let answer = response("200 OK", &[], found.expect("a layer"));
        Some(if seen.method == "HEAD" { head_only(answer) } else { answer })
    });
    let hosts = start_fleet(&server, 2).await;
    let liar = Liar::start(&sent).await;
    let lie = Arc::new(Mutex::new(Bytes::new()));
    let told = lie.clone();
    let lies_asked = liar.answer(move |_| Some(told.lock().clone())).await;
    for (number, one) in lies.iter().enumerate() {
        *lie.lock() = one.clone();
        for layer in &layers[number] {
            let digest = Digest::sha256(layer);
            for host in &hosts {
                liar.announce(liar.connect(host).await, &digest).await;
            }
            let what = format!("lie {number}, a layer of {} bytes", layer.len());
            eventually_async(&what, async || {
                let answer = hosts[1].get(&format!("/v2/a/blobs/{digest}")).await;
                let is_whole = answer.status == 200 && answer.is_complete;
                assert!(!is_whole || answer.body == *layer, "{what}: other bytes");
                is_whole
            })
            .await;
        }
    }
    assert!(lies_asked.lock().len() >= lies.len(), "the liar was asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_is_late_for_another_request_still_gets_the_reports() {
    use sha2::Digest as _;
    let manifests: Vec<_> = (0..40).map(|number| manifest_of(&[&layer(number, false)])).collect();
    let layers: Vec<_> = (0..40).map(|number| layer(number, true)).collect();
    let served = [manifests.clone(), layers.clone()].concat();
    let server = HttpServer::start(move |seen| {
        let found = served.iter().find(|one| seen.path.contains(&Digest::sha256(one).hex()));
        let media_type = "application/vnd.oci.image.manifest.v1+json";
        let found = found.expect("a blob or a manifest");
        let is_manifest = seen.path.contains("/manifests/");
        let answer = match is_manifest {
            true => manifest_response(media_type, found),
            false => response("200 OK", &[], found),
        };
        Some(if seen.method == "HEAD" { head_only(answer) } else { answer })
    });
    let host = start_fleet(&server, 1).await.remove(0);
    let coordinator = Liar::start_coordinator().await;
    let peer = coordinator.connect(&host).await;
    eventually_async("the host knows the other one", async || {
        host.running.fleet().await.unwrap().known_hosts == 1
    })
    .await;
    let assignment = json!({
        "leases": [0], "hosts": [], "holder": null, "progress": 0, "report_within_ms": 1_000,
    });
    let asked = coordinator
        .answer(move |head| match head {
            head if head.get("manifest").is_some() => None,
            head if head.get("report").is_some() => {
                Some(encode(&json!({"assignment": assignment}), b""))
            }
            _ => Some(encode(&json!("absent"), b"")),
        })
        .await;
    let distance = |peer: PeerId, key: &str| -> Vec<u8> {
        let (place, key) = (Sha256::digest(peer.to_bytes()), Sha256::digest(key));
        place.iter().zip(key).map(|(place, key)| place ^ key).collect()
    };
    let is_coordinated = |bytes: &Vec<u8>| {
        let key = Digest::sha256(bytes).to_string();
        distance(coordinator.host.peer_id(), &key) < distance(peer, &key)
    };
    let mut layers = layers.into_iter().filter(is_coordinated);
    let pull = async |layer: Vec<u8>| {
        let digest = Digest::sha256(&layer);
        let answer = host.get(&format!("/v2/a/blobs/{digest}")).await;
        assert_eq!(answer.status, 200, "{:?}", String::from_utf8_lossy(&answer.body));
        let is_report = |head: &Value| head["report"]["digest"] == digest.to_string();
        assert!(asked.lock().iter().any(is_report), "{digest} is reported to its coordinator");
    };
    pull(layers.next().unwrap()).await;
    let manifest = manifests.into_iter().find(is_coordinated).unwrap();
    let path = format!("/v2/a/manifests/{}", Digest::sha256(&manifest));
    assert_eq!(host.get(&path).await.status, 200);
    assert!(asked.lock().iter().any(|head| head.get("manifest").is_some()), "it was asked");
    pull(layers.next().unwrap()).await;
}
