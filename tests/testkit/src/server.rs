//! Servers on free ports, whose answers a test decides.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::http::headers;

/// Serves each connection on a thread of its own. Returns the address.
pub fn serve(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("a listener has an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// A server that answers each request. `None` closes the connection.
pub fn serve_http(
    answer: impl Fn(&Received) -> Option<Vec<u8>> + Clone + Send + 'static,
) -> SocketAddr {
    serve(move |stream| answer_requests(stream, &answer))
}

/// Answers the requests of one connection, until the client closes it or there is no answer.
pub fn answer_requests(stream: TcpStream, mut answer: impl FnMut(&Received) -> Option<Vec<u8>>) {
    let mut reader = BufReader::new(&stream);
    while let Some(answer) = Received::read(&mut reader).and_then(|request| answer(&request)) {
        if (&stream).write_all(&answer).is_err() {
            return;
        }
    }
}

/// A request as a server received it.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: String,
    pub path: String,
    /// All lines up to the body.
    pub head: String,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Received {
    /// Reads a request; `None` at the end of the connection.
    pub fn read(reader: &mut impl BufRead) -> Option<Received> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head).ok().filter(|length| *length > 0)?;
        }
        let headers = headers(&head);
        let length = headers.get("content-length").map_or(Ok(0), |length| length.parse());
        let mut body = vec![0; length.expect("a length")];
        reader.read_exact(&mut body).ok()?;
        let mut words = head.split(' ').map(str::to_owned);
        let (method, path) = (words.next()?, words.next()?);
        Some(Received { method, path, head, headers, body })
    }

    /// The value of a header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// A response with these header lines and this body, and the length of the body.
pub fn response(status: &str, lines: &[&str], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let head = format!("HTTP/1.1 {status}\r\n{lines}content-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// A server that records the requests.
#[derive(Clone)]
pub struct HttpServer {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl HttpServer {
    /// Answers each request. `None` closes the connection.
    pub fn start(
        answer: impl Fn(&Received) -> Option<Vec<u8>> + Clone + Send + 'static,
    ) -> HttpServer {
        let received = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&received);
        let address = serve_http(move |request| {
            requests.lock().unwrap().push(request.clone());
            answer(request)
        });
        HttpServer { address, received }
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// The number of requests with this method, for a path with this text in it.
    pub fn count(&self, method: &str, text: &str) -> usize {
        let received = self.received.lock().unwrap();
        received.iter().filter(|one| one.method == method && one.path.contains(text)).count()
    }
}
