//! Containers that start before their image has arrived: ranges of a blob, and the order of their blocks.

use std::sync::Arc;

use watchfire_mirror::oci::Digest;
use watchfire_testkit::{HttpServer, Received, eventually_async, response};

use crate::fleet::{file_of, start_fleet};
use crate::support::{DOCKER, TestMirror, head_only, manifest_of, manifest_response, mirror};

const MIB: usize = 1 << 20;
const BLOCKS: usize = 40;

/// A range of blocks, and its header.
fn header(from: usize, to: usize) -> String {
    format!("Range: bytes={}-{}", from * MIB, to * MIB - 1)
}

/// The first and the last byte of the range that is asked for.
pub(crate) fn range_of(seen: &Received) -> Option<(usize, usize)> {
    let (start, end) = seen.header("range").strip_prefix("bytes=")?.split_once('-')?;
    Some((start.parse().ok()?, end.parse().ok()?))
}

/// A registry that sends ranges of a layer.
fn registry(layer: &Arc<Vec<u8>>) -> HttpServer {
    let (layer, manifest) = (layer.clone(), manifest_of(&[layer]));
    HttpServer::start(move |seen| {
        let answer = match (seen.path.contains("/manifests/"), range_of(seen)) {
            (true, _) => manifest_response(DOCKER, &manifest),
            (false, None) => response("200 OK", &["Accept-Ranges: bytes"], layer.as_slice()),
            (false, Some((start, end))) => {
                let line = format!("Content-Range: bytes {start}-{end}/{}", layer.len());
                response("206 Partial Content", &[&line], &layer[start..=end])
            }
        };
        Some(if seen.method == "HEAD" { head_only(answer) } else { answer })
    })
}

fn layer() -> Arc<Vec<u8>> {
    Arc::new((0..BLOCKS * MIB - 5).map(|at| (at / 251 + at % 251 + at / MIB) as u8).collect())
}

/// The bytes of the layer that the registry sent, and its blocks. Requests for blocks of one read may pass each other.
fn sent(server: &HttpServer) -> (usize, Vec<usize>) {
    let ranges = server.received().into_iter().filter(|seen| seen.method == "GET");
    let ranges: Vec<_> = ranges.filter_map(|seen| range_of(&seen)).collect();
    let blocks = ranges.iter().flat_map(|(start, end)| start / MIB..=end / MIB);
    let mut blocks: Vec<_> = blocks.collect();
    blocks.sort_unstable();
    (ranges.iter().map(|(start, end)| end - start + 1).sum(), blocks)
}

async fn read(host: &TestMirror, layer: &[u8], from: usize, to: usize) {
    let path = format!("/v2/a/blobs/{}", Digest::sha256(layer));
    let answer = host.request("GET", &path, &[&header(from, to)]).await;
    assert_eq!(answer.status, 206);
    assert!(answer.body == layer[from * MIB..to * MIB], "{from} to {to}");
}

async fn has_whole(host: &TestMirror, digest: &Digest) {
    eventually_async("the host has the whole layer", async || file_of(host, digest).exists()).await;
}

/// Waits until a host keeps an order beside the layer that begins so.
async fn keeps_order(host: &TestMirror, digest: &Digest, order: &[u8]) {
    let path = file_of(host, digest).with_extension("start");
    eventually_async(&format!("the host keeps the order {order:?}"), async || {
        let bytes = std::fs::read(&path).unwrap_or_default();
        bytes.chunks(4).map(|word| word[0]).take(order.len()).eq(order.iter().copied())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_gets_the_blocks_that_it_reads_and_then_the_rest_follows_once() {
    let layer = layer();
    let digest = Digest::sha256(&layer);
    let server = registry(&layer);
    let mirror = mirror(&[format!("http://{}", server.address)], |_| {}).await;
    assert_eq!(mirror.get("/v2/a/manifests/v1").await.status, 200);
    for (from, to) in [(20, 23), (3, 4), (21, 22)] {
        read(&mirror, &layer, from, to).await;
    }
    assert_eq!(sent(&server).1, [3, 20, 21, 22]);
    has_whole(&mirror, &digest).await;
    assert_eq!(sent(&server).0, layer.len());
    keeps_order(&mirror, &digest, &[20, 21, 22, 3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_fetches_a_start_once_and_learns_its_order() {
    let layer = layer();
    let digest = Digest::sha256(&layer);
    let server = registry(&layer);
    let hosts = start_fleet(&server, 3).await;
    let path = "/v2/a/manifests/v1?ns=registry.example";
    for host in &hosts {
        assert_eq!(host.get(path).await.status, 200);
    }
    read(&hosts[0], &layer, 30, 32).await;
    read(&hosts[0], &layer, 7, 8).await;
    let start = sent(&server).1;
    assert_eq!(start, [7, 30, 31], "a start fetches what it reads");
    read(&hosts[1], &layer, 7, 8).await;
    assert_eq!(sent(&server).1, start, "the second host gets it from the first");
    read(&hosts[2], &layer, 12, 13).await;
    for host in &hosts {
        has_whole(host, &digest).await;
    }
    let (bytes, blocks) = sent(&server);
    // On a busy machine a lease may move to another host. `lazy.test.mjs` holds the target of 1.05 copies.
    assert!(bytes <= layer.len() * 5 / 4, "{bytes} bytes in the blocks {blocks:?}");
    keeps_order(&hosts[0], &digest, &[30, 31, 7]).await;
    // Its own read was first.
    keeps_order(&hosts[1], &digest, &[7, 30, 31]).await;
}
