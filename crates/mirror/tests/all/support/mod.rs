//! A registry that answers with given bytes, and a mirror in front of it.

use std::io::{BufReader, Read as _, Write as _};
use std::net::SocketAddr;

use tempfile::TempDir;
use watchfire_mirror::oci::Digest;
use watchfire_mirror::{Mirror, MirrorSettings, RunningMirror, StartError, StoreError};
use watchfire_testkit::{
    Answer, Received, Request, answer_requests, eventually_async, response, serve,
};

pub const DOCKER: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

/// A server that answers the first request of each connection with these bytes, and closes it then, or when the client
/// does. Each further one is answered in the same way.
pub fn start_closing(bytes: Vec<u8>, closes: bool) -> SocketAddr {
    serve(move |mut stream| {
        if !closes {
            return answer_requests(stream, |_| Some(bytes.clone()));
        }
        Received::read(&mut BufReader::new(&stream));
        // The client may have left.
        let _ = stream.write_all(&bytes);
    })
}

/// An answer with these header lines only, and this body.
pub fn raw_response(status: &str, lines: &[&str], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status}\r\n").into_bytes();
    for line in lines {
        bytes.extend_from_slice(format!("{line}\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// The body in chunks, without its length.
pub fn chunked(status: &str, lines: &[&str], body: &[u8]) -> Vec<u8> {
    let mut chunks = Vec::new();
    for chunk in body.chunks(60_000) {
        chunks.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        chunks.extend_from_slice(chunk);
        chunks.extend_from_slice(b"\r\n");
    }
    chunks.extend_from_slice(b"0\r\n\r\n");
    raw_response(status, &[lines, &["Transfer-Encoding: chunked"]].concat(), &chunks)
}

pub fn head_only(answer: Vec<u8>) -> Vec<u8> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head ends");
    answer[..end + 4].to_vec()
}

pub fn manifest_of(blobs: &[&[u8]]) -> Vec<u8> {
    let layer =
        |blob: &&[u8]| format!(r#"{{"digest":"{}","size":{}}}"#, Digest::sha256(blob), blob.len());
    let layers: Vec<String> = blobs.iter().map(layer).collect();
    format!(r#"{{"schemaVersion":2,"layers":[{}]}}"#, layers.join(",")).into_bytes()
}

pub fn manifest_response(media_type: &str, manifest: &[u8]) -> Vec<u8> {
    let content_type = format!("Content-Type: {media_type}");
    let digest = format!("Docker-Content-Digest: {}", Digest::sha256(manifest));
    response("200 OK", &[&content_type, &digest], manifest)
}

/// A mirror whose store is removed when it is dropped.
pub struct TestMirror {
    pub running: RunningMirror,
    pub store: TempDir,
}

/// Starts a mirror of these registries. `change` changes its settings.
pub async fn mirror(upstreams: &[String], change: impl FnOnce(&mut MirrorSettings)) -> TestMirror {
    let store = tempfile::tempdir().expect("a folder");
    let mut settings = MirrorSettings {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        upstreams: upstreams.iter().map(|one| one.parse().expect("a registry")).collect(),
        store: store.path().to_owned(),
        first_byte_timeout: std::time::Duration::from_secs(20),
        ..MirrorSettings::default()
    };
    change(&mut settings);
    let running = start(settings).await;
    TestMirror { running, store }
}

/// Starts a mirror. Threads of a mirror that stopped may hold the store for a moment.
pub async fn start(settings: MirrorSettings) -> RunningMirror {
    let mut started = None;
    eventually_async("the store is free", async || {
        started = match Mirror::new(settings.clone()).start().await {
            Err(StartError::Store(StoreError::InUse { .. })) => None,
            other => Some(other.expect("the mirror starts")),
        };
        started.is_some()
    })
    .await;
    started.expect("it has started")
}

impl TestMirror {
    pub async fn request(&self, method: &str, path: &str, lines: &[&str]) -> Answer {
        let (address, is_head) = (self.running.address(), method == "HEAD");
        let request = Request::new(method, path).lines(lines);
        let exchange = move || {
            let mut bytes = Vec::new();
            // A reset ends a cut body too.
            let _ = request.send(address).expect("the mirror listens").read_to_end(&mut bytes);
            Answer::parse(&bytes, is_head).unwrap_or_default()
        };
        tokio::task::spawn_blocking(exchange).await.expect("the exchange ends")
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[]).await
    }
}
