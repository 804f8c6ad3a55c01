//! A registry that answers with given bytes, and a mirror in front of it.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;
use watchfire_mirror::oci::Digest;
use watchfire_mirror::{Mirror, MirrorSettings, RunningMirror};

pub const DOCKER: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

/// A request as a server got it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub path: String,
    /// The headers, with names in lower case. Several lines of one name are joined.
    pub headers: BTreeMap<String, String>,
}

impl Seen {
    fn parse(head: &str) -> Seen {
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = BTreeMap::new();
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let known: &mut String = headers.entry(name.to_ascii_lowercase()).or_default();
            known.push_str(value.trim());
        }
        Seen { method, path, headers }
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// A server with a thread for each connection.
#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Answers each request with these bytes. The connection is closed when they are `None`.
    pub fn start(answer: impl Fn(&Seen) -> Option<Vec<u8>> + Clone + Send + 'static) -> Server {
        Server::start_raw(move |stream, seen| serve(stream, seen, answer.clone()))
    }

    /// Answers the first request of each connection with these bytes, and closes it then, or when the
    /// client does. Each further one is answered in the same way.
    pub fn start_closing(bytes: Vec<u8>, closes: bool) -> Server {
        let bytes = Arc::new(bytes);
        Server::start_raw(move |mut stream, seen| {
            let mut received = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = stream.read(&mut buffer) {
                received.extend_from_slice(&buffer[..len]);
                if received.ends_with(b"\r\n\r\n") {
                    seen.lock().unwrap().push(Seen::parse(&String::from_utf8_lossy(&received)));
                    received.clear();
                    if stream.write_all(&bytes).is_err() || closes {
                        return;
                    }
                }
            }
        })
    }

    fn start_raw(serve: impl Fn(TcpStream, &Mutex<Vec<Seen>>) + Clone + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (serve, requests) = (serve.clone(), Arc::clone(&requests));
                thread::spawn(move || serve(stream, &requests));
            }
        });
        Server { address, seen }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The number of requests with this method, for a path with this text in it.
    pub fn count(&self, method: &str, text: &str) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|one| one.method == method && one.path.contains(text)).count()
    }
}

fn serve(
    mut stream: TcpStream,
    requests: &Mutex<Vec<Seen>>,
    answer: impl Fn(&Seen) -> Option<Vec<u8>>,
) {
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        received.extend_from_slice(&buffer[..len]);
        // Requests have no body.
        while let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head: Vec<u8> = received.drain(..end + 4).collect();
            let seen = Seen::parse(&String::from_utf8_lossy(&head));
            requests.lock().unwrap().push(seen.clone());
            let Some(bytes) = answer(&seen) else { return };
            if stream.write_all(&bytes).is_err() {
                return;
            }
        }
    }
}

/// An answer with these header lines and this body, and the length of the body.
pub fn response(status: &str, lines: &[&str], body: &[u8]) -> Vec<u8> {
    let length = format!("Content-Length: {}", body.len());
    raw_response(status, &[lines, &[length.as_str()]].concat(), body)
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
    let running = Mirror::new(settings).start().await.expect("the mirror starts");
    TestMirror { running, store }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
    /// Whether the body ended where it should.
    pub is_complete: bool,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

impl TestMirror {
    pub async fn request(&self, method: &str, path: &str, lines: &[&str]) -> Answer {
        let host = if lines.iter().any(|line| line.starts_with("Host:")) {
            ""
        } else {
            "Host: localhost\r\n"
        };
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let head = format!("{method} {path} HTTP/1.1\r\n{host}Connection: close\r\n{lines}\r\n");
        let (address, is_head) = (self.running.address(), method == "HEAD");
        let exchange = move || {
            let mut stream = TcpStream::connect(address).expect("the mirror listens");
            stream.write_all(head.as_bytes()).expect("the mirror reads");
            let mut bytes = Vec::new();
            // A reset ends a cut body too.
            let _ = stream.read_to_end(&mut bytes);
            parse(&bytes, is_head)
        };
        tokio::task::spawn_blocking(exchange).await.expect("the exchange ends")
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[]).await
    }
}

/// Parses an answer of the mirror, whose form is known.
fn parse(bytes: &[u8], is_head: bool) -> Answer {
    let end = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let Some(end) = end else {
        let (headers, body) = (BTreeMap::new(), bytes.to_vec());
        return Answer { status: 0, headers, body, is_complete: false };
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let headers = Seen::parse(&head).headers;
    let rest = &bytes[end + 4..];
    let has_no_body = is_head || head.contains(" 204 ") || head.contains(" 304 ");
    let (body, is_complete) = if has_no_body {
        (rest.to_vec(), rest.is_empty())
    } else if headers.contains_key("transfer-encoding") {
        dechunked(rest)
    } else {
        let length = headers.get("content-length").and_then(|length| length.parse().ok());
        (rest.to_vec(), length.is_none_or(|length: usize| length == rest.len()))
    };
    Answer { status: status.expect("a status"), headers, body, is_complete }
}

fn dechunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|bytes| bytes == b"\r\n") {
        let size =
            usize::from_str_radix(&String::from_utf8_lossy(&rest[..end]), 16).expect("a size");
        rest = &rest[end + 2..];
        if size == 0 {
            return (body, rest == b"\r\n");
        }
        if rest.len() < size + 2 {
            break;
        }
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
    (body, false)
}
