//! Versions of an eStargz layer, of which a host has one and pulls the next.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;
use watchfire_mirror::oci::Digest;
use watchfire_testkit::{HttpServer, response};

use crate::fleet::start_fleet;
use crate::starts::range_of;
use crate::support::{DOCKER, TestMirror, head_only, manifest_of, manifest_response, mirror};

/// Few enough blocks differ for a tenth.
const MANY: usize = 64;
/// Enough for the reuse of an older version.
const FEW: usize = 12;
/// The file that changes.
const CHANGED: usize = 7;
const FILE_BYTES: usize = 1 << 20;

fn gzip(bytes: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The content of a file, which no other file has.
fn bytes_of(seed: usize, len: usize) -> Vec<u8> {
    let mut bytes = seed.to_le_bytes().repeat(len.div_ceil(8));
    bytes.truncate(len);
    bytes
}

/// A layer: its members, a tar file with the TOC in a gzip member, and the footer.
fn with_toc(mut layer: Vec<u8>, toc: &[u8], toc_offset: Option<usize>) -> Vec<u8> {
    let mut tar = vec![0; 512];
    let size = format!("{:011o}\0", toc.len());
    tar[124..136].copy_from_slice(size.as_bytes());
    tar.extend_from_slice(toc);
    let offset = toc_offset.unwrap_or(layer.len());
    layer.extend(gzip(&tar, Compression::fast()));
    layer.extend_from_slice(&[0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 26, 0, b'S', b'G', 22, 0]);
    layer.extend_from_slice(format!("{offset:016x}STARGZ").as_bytes());
    layer.extend_from_slice(&[1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    layer
}

/// So many files of a layer: its members, and the entries of its TOC.
fn files(count: usize, changed: Option<usize>) -> (Vec<u8>, Vec<String>) {
    let (mut layer, mut entries) =
        (gzip(b"the header of the first file", Compression::none()), Vec::new());
    for file in 0..count {
        let is_changed = changed == Some(file);
        let seed = if is_changed { 1_000 + file } else { file };
        let content = bytes_of(seed, FILE_BYTES + if is_changed { 5_000 } else { 0 });
        let digest = Digest::sha256(&content);
        entries.push(format!(
            r#"{{"name":"{file}","type":"reg","size":{},"offset":{},"chunkSize":{},"chunkDigest":"{digest}"}}"#,
            content.len(),
            layer.len(),
            content.len()
        ));
        // The header of the next file is in the member.
        let next = format!("header of {} {}", file + 1, changed == Some(file + 1));
        layer.extend(gzip(&[&content, next.as_bytes()].concat(), Compression::none()));
    }
    (layer, entries)
}

fn toc(entries: &[String]) -> Vec<u8> {
    format!(r#"{{"version":1,"entries":[{}]}}"#, entries.join(",")).into_bytes()
}

fn layer(count: usize, changed: Option<usize>) -> Vec<u8> {
    let (layer, entries) = files(count, changed);
    with_toc(layer, &toc(&entries), None)
}

struct Registry {
    server: HttpServer,
    layers: Vec<Vec<u8>>,
    sent: Arc<AtomicUsize>,
}

/// A registry with an image of one layer for each tag: `v0`, `v1` and so on.
fn registry(layers: Vec<Vec<u8>>) -> Registry {
    let (sent, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(layers.clone()));
    let counted = sent.clone();
    let manifests: Vec<_> = layers.iter().map(|layer| manifest_of(&[layer])).collect();
    let digests: Vec<_> = layers.iter().map(|layer| Digest::sha256(layer).hex()).collect();
    let server = HttpServer::start(move |seen| {
        let version =
            |path: &str| path.rsplit_once("/manifests/v").and_then(|(_, v)| v.parse().ok());
        let named = version(&seen.path).map(|version: usize| &manifests[version]);
        let answer = match (named, range_of(seen)) {
            (Some(manifest), _) => manifest_response(DOCKER, manifest),
            (None, range) => {
                let version = digests.iter().position(|hex| seen.path.contains(hex))?;
                let layer = &served[version];
                let (start, end) = range.unwrap_or((0, layer.len() - 1));
                let line = format!("Content-Range: bytes {start}-{end}/{}", layer.len());
                if seen.method == "GET" {
                    counted.fetch_add(end + 1 - start, Ordering::Relaxed);
                }
                match range {
                    Some(_) => response("206 Partial Content", &[&line], &layer[start..=end]),
                    None => response("200 OK", &["Accept-Ranges: bytes"], layer),
                }
            }
        };
        Some(if seen.method == "HEAD" { head_only(answer) } else { answer })
    });
    Registry { server, layers, sent }
}

impl Registry {
    async fn host(&self) -> TestMirror {
        mirror(&[format!("registry.example=http://{}", self.server.address)], |_| {}).await
    }

    async fn pull(&self, host: &TestMirror, version: usize) {
        assert_eq!(host.get(&format!("/v2/a/manifests/v{version}")).await.status, 200);
        let layer = &self.layers[version];
        let answer = host.get(&format!("/v2/a/blobs/{}", Digest::sha256(layer))).await;
        assert!(answer.body == *layer, "{} with {} bytes", answer.status, answer.body.len());
    }

    /// The share of the second version that the registry sends to hosts that have the first one.
    async fn share_for_update(&self, hosts: &[TestMirror]) -> f64 {
        futures::future::join_all(hosts.iter().map(|host| self.pull(host, 0))).await;
        let before = self.sent.load(Ordering::Relaxed);
        futures::future::join_all(hosts.iter().map(|host| self.pull(host, 1))).await;
        (self.sent.load(Ordering::Relaxed) - before) as f64 / self.layers[1].len() as f64
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_with_one_other_file_moves_a_tenth_of_its_bytes() {
    let registry = registry(vec![layer(MANY, None), layer(MANY, Some(CHANGED))]);
    let share = registry.share_for_update(&[registry.host().await]).await;
    assert!(share <= 0.1, "the registry sent {share}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_fetches_what_is_new_in_a_version_once() {
    let registry = registry(vec![layer(MANY, None), layer(MANY, Some(CHANGED))]);
    let hosts = start_fleet(&registry.server, 3).await;
    let received = async || {
        let mut bytes = 0;
        for host in &hosts {
            bytes += host.running.fleet().await.expect("a fleet").received_bytes;
        }
        bytes as usize
    };
    futures::future::join_all(hosts.iter().map(|host| registry.pull(host, 0))).await;
    let (sent_before, received_before) = (registry.sent.load(Ordering::Relaxed), received().await);
    futures::future::join_all(hosts.iter().map(|host| registry.pull(host, 1))).await;
    let size = registry.layers[1].len();
    let sent = registry.sent.load(Ordering::Relaxed) - sent_before;
    let exchanged = received().await - received_before;
    assert!(10 * sent <= size, "the registry sent {sent} of {size}");
    assert!(10 * exchanged <= hosts.len() * size, "the hosts received {exchanged} of {size} each");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_toc_that_lies_costs_only_time() {
    let (other, _) = files(FEW, Some(CHANGED));
    let (_, entries) = files(FEW, None);
    // The same places and digests as in the first version, with other bytes behind them.
    let lie = with_toc(other, &toc(&entries), None);
    let registry = registry(vec![layer(FEW, None), lie]);
    let share = registry.share_for_update(&[registry.host().await]).await;
    assert!(share <= 1.01, "the registry sent {share}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_toc_is_ignored() {
    let (members, entries) = files(FEW, Some(CHANGED));
    let beyond = entries[0].replace("\"offset\":", "\"offset\":9999999");
    let descending = [entries[1].clone(), entries[0].clone()];
    let versions = [
        with_toc(members.clone(), &toc(&[beyond]), None),
        with_toc(members.clone(), &toc(&descending), None),
        with_toc(members.clone(), &toc(&entries), Some(usize::MAX)),
        with_toc(members.clone(), &toc(&entries), Some(members.len() + (1 << 30))),
        // It stands for a longer one: 33 MiB are enough to be too many.
        with_toc(members.clone(), &vec![0; 33 << 20], None),
        with_toc(members, b"{\"entries\":[0]}", None),
    ];
    let layers = [layer(FEW, None)].into_iter().chain(versions).collect();
    let registry = registry(layers);
    let host = registry.host().await;
    registry.pull(&host, 0).await;
    let before = registry.sent.load(Ordering::Relaxed);
    for version in 1..registry.layers.len() {
        registry.pull(&host, version).await;
    }
    let size: usize = registry.layers[1..].iter().map(Vec::len).sum();
    let sent = registry.sent.load(Ordering::Relaxed) - before;
    assert!(sent <= size + size / 100, "the registry sent {sent} of {size}");
}
