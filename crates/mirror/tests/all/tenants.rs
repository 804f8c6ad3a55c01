//! A model of two tenants in one fleet: random clients get from a repository what its registry gives to the
//! credentials of their host, and a host stores nothing else.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;
use watchfire_mirror::MirrorSettings;
use watchfire_mirror::oci::Digest;
use watchfire_testkit::{HttpServer, response};
use watchfire_types::Rng;

use crate::fleet::start_fleet_with;
use crate::liar::{Liar, REGISTRY, cid_of, proof};
use crate::support::{DOCKER, TestMirror, head_only, manifest_response, mirror};

/// The first part is the tenant. The registry gives the first repository to everybody.
const REPOSITORIES: [&str; 3] = ["open/app", "ann/app", "ben/app"];
/// The tenant of each host. `none` has no password.
const HOSTS: [&str; 5] = ["ann", "ben", "none", "ann", "ben"];
const CLIENTS: u64 = 8;

/// The content of a registry: the path of each manifest, blob and list, and its bytes.
#[derive(Clone, Default)]
struct Content(Vec<(String, Vec<u8>)>);

impl Content {
    fn add(&mut self, repository: &str, kind: &str, bytes: &[u8]) {
        let name = format!("/v2/{repository}/{kind}/{}", Digest::sha256(bytes));
        self.0.push((name, bytes.to_vec()));
    }

    fn get(&self, path: &str) -> Option<&[u8]> {
        self.0.iter().find(|(other, _)| other == path).map(|(_, bytes)| &bytes[..])
    }

    /// The digests that a tenant may pull from some repository.
    fn digests_of(&self, tenant: &str) -> HashSet<Digest> {
        let allowed = self.0.iter().filter(|(path, _)| may_pull(tenant, path));
        allowed.map(|(_, bytes)| Digest::sha256(bytes)).collect()
    }
}

fn may_pull(tenant: &str, path: &str) -> bool {
    let owner = path.split('/').nth(2).expect("a repository");
    owner == "open" || owner == tenant
}

/// 1.5 MB: two blocks.
fn large(seed: u64) -> Vec<u8> {
    let mut rng = Rng::from_seed(seed);
    (0..187_500).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

/// Repositories with layers of their own and common ones. Each has manifests that name the layers and the
/// manifests of the others.
fn content() -> Content {
    let [open, shared, ann, ben] = [1, 2, 3, 4].map(large);
    let layers = [
        [b"base".to_vec(), b"public".to_vec(), open.clone(), open],
        [b"base".to_vec(), b"secret of ann".to_vec(), shared.clone(), ann],
        [b"base".to_vec(), b"secret of ben".to_vec(), shared, ben],
    ];
    let descriptor = |bytes: &[u8]| {
        format!(r#"{{"digest":"{}","size":{}}}"#, Digest::sha256(bytes), bytes.len())
    };
    let named: Vec<String> = layers.iter().flatten().map(|one| descriptor(one)).collect();
    let foreign = format!(r#"{{"urls":["https://a.example/x"],{}"#, &named[1][1..]);
    let mut all = Content::default();
    for (repository, own) in REPOSITORIES.iter().zip(&layers) {
        own.iter().for_each(|layer| all.add(repository, "blobs", layer));
        let others: Vec<String> = all.0.iter().map(|(_, bytes)| descriptor(bytes)).collect();
        let members = [
            format!(r#""layers":[{}]"#, named.join(",")),
            format!(r#""layers":[{foreign}]"#),
            format!(r#""blobs":[{}]"#, named.join(",")),
            format!(r#""config":{}"#, named[5]),
            format!(r#""manifests":[{}]"#, others.join(",")),
            format!(r#""fsLayers":[{{"blobSum":"{}"}}]"#, Digest::sha256(&layers[1][1])),
        ];
        for (number, members) in members.iter().enumerate() {
            let text = format!(r#"{{"schemaVersion":2,"comment":"{repository}",{members}}}"#);
            all.add(repository, "manifests", text.as_bytes());
            all.0.push((format!("/v2/{repository}/manifests/v{number}"), text.into_bytes()));
        }
        for list in ["tags/list".to_owned(), format!("referrers/{}", Digest::sha256(b"base"))] {
            let text = format!(r#"{{"name":"{repository}","tags":[],"manifests":[]}}"#);
            all.0.push((format!("/v2/{repository}/{list}"), text.into_bytes()));
        }
    }
    all
}

fn registry(content: &Content) -> HttpServer {
    let content = content.clone();
    HttpServer::start(move |seen| {
        let basic = |tenant: &str| {
            format!("Basic {}", STANDARD.encode(format!("{tenant}:secret")))
                == seen.header("authorization")
        };
        let tenant = ["ann", "ben"].into_iter().find(|tenant| basic(tenant));
        let answer = match content.get(&seen.path) {
            _ if !may_pull(tenant.unwrap_or("none"), &seen.path) => match tenant {
                Some(_) => response("403 Forbidden", &[], b""),
                None => response("401 Unauthorized", &["WWW-Authenticate: Basic realm=\"x\""], b""),
            },
            Some(bytes) if seen.path.contains("/manifests/") => manifest_response(DOCKER, bytes),
            Some(bytes) => response("200 OK", &[], bytes),
            None => response("404 Not Found", &[], b""),
        };
        Some(if seen.method == "HEAD" { head_only(answer) } else { answer })
    })
}

/// Gives a mirror the password of a tenant.
fn log_in(settings: &mut MirrorSettings, tenant: &str, folder: &Path) {
    if tenant != "none" {
        let path = folder.join(tenant);
        let auth = json!({"auths": {REGISTRY: {"username": tenant, "password": "secret"}}});
        std::fs::write(&path, auth.to_string()).unwrap();
        settings.credentials = vec![path];
    }
}

async fn start(server: &HttpServer, access_ttl: Duration) -> (Vec<TestMirror>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let hosts = start_fleet_with(server, HOSTS.len(), |number, settings| {
        settings.access_ttl = access_ttl;
        log_in(settings, HOSTS[number], folder.path());
    });
    (hosts.await, folder)
}

/// Sends random requests to random hosts.
async fn check(hosts: &[TestMirror], content: &Content, seed: u64, steps: usize) {
    let names: HashSet<&str> =
        content.0.iter().filter_map(|(path, _)| path.splitn(5, '/').nth(4)).collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    let mut rng = Rng::from_seed(seed);
    for step in 0..steps {
        let (host, repository) = (rng.index(hosts.len()), REPOSITORIES[rng.index(3)]);
        let path = format!("/v2/{repository}/{}", names[rng.index(names.len())]);
        let (start, end) = (rng.index(4), 4 + rng.index(2_000_000));
        let range = format!("Range: bytes={start}-{end}");
        let (method, lines) = match rng.index(4) {
            0 => ("HEAD", &[][..]),
            1 if path.contains("/blobs/") => ("GET", &[range.as_str()][..]),
            _ => ("GET", &[][..]),
        };
        let answer = hosts[host].request(method, &path, lines).await;
        let what = format!("seed {seed}, step {step}: {method} {path} {lines:?} at host {host}");
        match content.get(&path).filter(|_| may_pull(HOSTS[host], &path)) {
            None => {
                assert!(matches!(answer.status, 401 | 403 | 404), "{what}: {}", answer.status);
                assert!(answer.body.len() < 1_000, "{what}");
            }
            Some(bytes) => {
                let (status, sent) = match lines {
                    [] => (200, bytes),
                    _ => (206, &bytes[start..bytes.len().min(end + 1)]),
                };
                assert_eq!(answer.status, status, "{what}");
                assert!(method == "HEAD" || answer.body == sent, "{what}: other bytes");
            }
        }
    }
}

/// The digests of the blobs and manifests in a folder, and of parts of blobs.
fn stored(folder: &Path) -> HashSet<Digest> {
    let mut found = HashSet::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        match path.is_dir() {
            true if matches!(name, "repositories" | "files") => {}
            true => found.extend(stored(&path)),
            false => {
                let hex = name.trim_start_matches("sha256-").trim_end_matches(".blocks");
                found.extend(format!("sha256:{hex}").parse::<Digest>());
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_requests_get_what_the_registry_gives_to_their_hosts() {
    let content = content();
    let server = registry(&content);
    for (round, access_ttl) in [0, 3600, 0, 3600].into_iter().enumerate() {
        let (hosts, _folder) = start(&server, Duration::from_secs(access_ttl)).await;
        let clients = (0..CLIENTS).map(|client| {
            let seed = round as u64 * CLIENTS + client;
            check(&hosts, &content, seed, 300)
        });
        join_all(clients).await;
        for (host, tenant) in hosts.iter().zip(HOSTS) {
            let stored = stored(host.store.path());
            assert!(!stored.is_empty());
            let foreign: Vec<_> = stored.difference(&content.digests_of(tenant)).cloned().collect();
            assert!(foreign.is_empty(), "round {round}: a host of {tenant} stores {foreign:?}");
        }
        for (one, other) in [(0, 3), (1, 4)] {
            let mut received = 0;
            for host in [one, other] {
                received += hosts[host].running.fleet().await.unwrap().received_bytes;
            }
            assert!(received > 1_000_000, "{} has hosts that share", HOSTS[one]);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let upstreams = [format!("{REGISTRY}=http://{}", server.address)];
    let alone = mirror(&upstreams, |settings| log_in(settings, "ann", folder.path())).await;
    check(&[alone], &content, 99, 400).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_gets_no_more_than_its_password_reaches() {
    let content = content();
    let server = registry(&content);
    let (hosts, _folder) = start(&server, Duration::from_secs(3600)).await;
    for (host, tenant) in hosts.iter().zip(HOSTS) {
        for (path, bytes) in content.0.iter().filter(|(path, _)| may_pull(tenant, path)) {
            assert!(host.get(path).await.body == *bytes, "{path}");
        }
    }
    let liar = Liar::start(&[]).await;
    let own = liar.host.peer_id();
    let reach = |tenant| (tenant, content.digests_of(tenant));
    let (none, ben) = (reach("none"), reach("ben"));
    let mut given = [0; 2];
    let peers = [liar.connect(&hosts[0]).await, liar.connect(&hosts[1]).await];
    for peer in [peers[0], peers[1], liar.connect(&hosts[2]).await] {
        let is_named = |path: &str| path.contains("sha256:") && !path.contains("/referrers/");
        for (path, bytes) in content.0.iter().filter(|(path, _)| is_named(path)) {
            let digest = Digest::sha256(bytes).to_string();
            let repository = path.split('/').skip(2).take(2).collect::<Vec<_>>().join("/");
            let of = |members: Value| {
                let mut all = json!({"registry": REGISTRY, "repository": repository});
                all.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
                all
            };
            let questions = [
                ("blob", json!({"digest": digest}), digest.clone()),
                ("hashes", json!({"digest": digest, "list": 0, "after": 0}), digest.clone()),
                (
                    "manifest",
                    of(json!({"reference": digest, "accept": "*/*", "fetches": true})),
                    format!("{REGISTRY}/{repository}:{digest}"),
                ),
                (
                    "access",
                    of(json!({"digest": digest, "asks": true})),
                    format!("{REGISTRY}/{repository}@{digest}"),
                ),
            ];
            for (kind, question, name) in questions {
                // Without a proof; with its own password; with a proof that two others have used.
                let proofs = [
                    (&none, Value::Null),
                    (&ben, proof("ben", own, peer, &name)),
                    (&none, proof("ann", peers[1], peers[0], &name)),
                ];
                for ((tenant, digests), access) in proofs {
                    let mut question = question.clone();
                    question["access"] = access;
                    let answer = liar.ask(peer, json!({kind: question})).await;
                    if answer != "absent" {
                        let may = match kind {
                            "access" => may_pull(tenant, path),
                            _ => digests.contains(&digest.parse().unwrap()),
                        };
                        assert!(may, "{kind} {path} with the password of {tenant}: {answer}");
                        given[usize::from(*tenant == "ben")] += 1;
                    }
                }
            }
        }
    }
    assert!(given[0] > 0 && given[1] > given[0], "public content, and that of ben: {given:?}");
    // Bitswap knows no tenants: the hash of a block of a larger layer is told only to hosts that may have it, and
    // a layer of one block, whose digest is its hash, is not sent.
    assert!(liar.host.ask(None, cid_of(&large(1)[..1 << 20])).await.unwrap().is_some());
    for secret in [&b"secret of ann"[..], b"secret of ben", b"base"] {
        assert_eq!(liar.host.ask(None, cid_of(secret)).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_password_reached_is_not_given_for_another() {
    let content = content();
    let server = registry(&content);
    let folder = tempfile::tempdir().unwrap();
    let store = tempfile::tempdir().unwrap();
    let secret = "/v2/ann/app/blobs/".to_owned() + &Digest::sha256(b"secret of ann").to_string();
    let mut given = Vec::new();
    for (tenant, asks) in
        [("ann", "ann"), ("ann", "ann"), ("ben", "ben"), ("none", "ben"), ("ann", "ann")]
    {
        let hosts = start_fleet_with(&server, 1, |_, settings| {
            settings.store = store.path().to_owned();
            log_in(settings, tenant, folder.path());
        });
        let host = hosts.await.pop().unwrap();
        if given.is_empty() {
            assert_eq!(host.get("/v2/ann/app/manifests/v0").await.status, 200);
            assert_eq!(host.get(&secret).await.status, 200);
        }
        let liar = Liar::start(&[]).await;
        let peer = liar.connect(&host).await;
        let name = secret.rsplit('/').next().unwrap();
        let access = proof(asks, liar.host.peer_id(), peer, name);
        given.push(liar.ask(peer, json!({"blob": {"digest": name, "access": access}})).await);
        host.running.stop().await;
    }
    // The last host has not asked the registry since it has the first password again.
    assert_eq!(given, ["blob", "blob", "absent", "absent", "absent"]);
}
