//! A model of two tenants: random clients of one mirror and of a fleet get from a repository what its registry
//! gives for that repository, and nothing that a manifest only names.

use std::collections::HashSet;

use watchfire_mirror::oci::Digest;
use watchfire_testkit::{HttpServer, response};
use watchfire_types::Rng;

use crate::fleet::start_fleet;
use crate::support::{DOCKER, TestMirror, head_only, manifest_response, mirror};

const TENANTS: [&str; 2] = ["open/app", "closed/app"];

/// The content of a registry: the path of each manifest and blob, and its bytes.
#[derive(Clone, Default)]
struct Content(Vec<(String, Vec<u8>)>);

impl Content {
    fn add(&mut self, tenant: &str, kind: &str, bytes: &[u8]) {
        self.0.push((format!("/v2/{tenant}/{kind}/{}", Digest::sha256(bytes)), bytes.to_vec()));
    }

    fn get(&self, path: &str) -> Option<&[u8]> {
        self.0.iter().find(|(other, _)| other == path).map(|(_, bytes)| &bytes[..])
    }
}

/// The content of both tenants, and the names of all blobs and manifests.
fn content() -> (Content, Vec<String>) {
    let large: Vec<u8> = (0..2_500_000_u32).map(|at| (at / 251 + at % 251) as u8).collect();
    let secrets = [b"secret".to_vec(), large];
    let descriptor = |bytes: &[u8]| {
        format!(r#"{{"digest":"{}","size":{}}}"#, Digest::sha256(bytes), bytes.len())
    };
    let named: Vec<String> = secrets.iter().map(|one| descriptor(one)).collect();
    let closed = format!(r#"{{"layers":[{}]}}"#, named.join(","));
    let mut all = Content::default();
    secrets.iter().for_each(|secret| all.add(TENANTS[1], "blobs", secret));
    all.add(TENANTS[1], "manifests", closed.as_bytes());
    all.0.push((format!("/v2/{}/manifests/v1", TENANTS[1]), closed.clone().into_bytes()));
    all.add(TENANTS[0], "blobs", b"public");
    let foreign = format!(r#"{{"urls":["https://a.example/x"],{}"#, &named[0][1..]);
    let members = [
        format!(r#""layers":[{},{}]"#, descriptor(b"public"), named.join(",")),
        format!(r#""layers":[{foreign}]"#),
        format!(r#""blobs":[{}]"#, named.join(",")),
        format!(r#""config":{}"#, named[0]),
        format!(r#""manifests":[{},{}]"#, descriptor(closed.as_bytes()), named[0]),
        format!(r#""fsLayers":[{{"blobSum":"{}"}}]"#, Digest::sha256(&secrets[0])),
    ];
    for (number, members) in members.iter().enumerate() {
        let manifest = format!(r#"{{"schemaVersion":2,{members}}}"#).into_bytes();
        all.add(TENANTS[0], "manifests", &manifest);
        all.0.push((format!("/v2/{}/manifests/v{number}", TENANTS[0]), manifest));
    }
    let name = |path: &String| path.splitn(5, '/').nth(4).expect("a kind and a name").to_owned();
    let names: HashSet<String> = all.0.iter().map(|(path, _)| name(path)).collect();
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort();
    (all, names)
}

async fn check(hosts: &[TestMirror], content: &Content, names: &[String], seed: u64) {
    let mut rng = Rng::from_seed(seed);
    for step in 0..80 {
        let host = rng.index(hosts.len());
        let tenant = TENANTS[rng.index(2)];
        let path = format!("/v2/{tenant}/{}", names[rng.index(names.len())]);
        let method = if rng.once_in(4) { "HEAD" } else { "GET" };
        let answer = hosts[host].request(method, &path, &[]).await;
        let what = format!("seed {seed}, step {step}: {method} {path} at host {host}");
        match content.get(&path) {
            None => assert_eq!(answer.status, 404, "{what}"),
            Some(bytes) => {
                assert_eq!(answer.status, 200, "{what}");
                assert!(method == "HEAD" || answer.body == bytes, "{what}: other bytes");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_manifest_names_is_given_only_where_the_registry_gives_it() {
    let (content, names) = content();
    let served = content.clone();
    let server = HttpServer::start(move |seen| {
        let answer = match served.get(&seen.path) {
            Some(bytes) if seen.path.contains("/manifests/") => manifest_response(DOCKER, bytes),
            Some(bytes) => response("200 OK", &[], bytes),
            None => response("404 Not Found", &[], b""),
        };
        Some(if seen.method == "HEAD" { head_only(answer) } else { answer })
    });
    for seed in 0..2 {
        let alone = mirror(&[format!("http://{}", server.address)], |_| {}).await;
        check(&[alone], &content, &names, seed).await;
        check(&start_fleet(&server, 3).await, &content, &names, seed).await;
    }
}
