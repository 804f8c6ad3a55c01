//! HTTP requests to a server: one request, one connection, one answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use watchfire_page_client::{Connector, ServerUrl};
use watchfire_types::USER_AGENT;

/// An answer with more headers is an error.
const HEADERS_MAX: usize = 1024;

/// A request. Its head has no other characters than visible ASCII and spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: &'static str,
    pub path: String,
    /// Headers besides `Host`, `Content-Length`, `Connection`, `User-Agent` and `Accept`.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// A GET without headers.
    pub fn get(path: impl Into<String>) -> Self {
        Request { method: "GET", path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    fn for_authority(&self, authority: &str) -> io::Result<http::Request<Full<Bytes>>> {
        let Request { method, path, headers, body } = self;
        let mut request = http::Request::builder()
            .method(*method)
            .uri(path)
            .header(http::header::HOST, authority)
            .header(http::header::CONNECTION, "close")
            .header(http::header::USER_AGENT, USER_AGENT)
            .header(http::header::ACCEPT, "*/*");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if *method != "GET" && body.is_empty() {
            request = request.header(http::header::CONTENT_LENGTH, 0);
        }
        let request = request.body(Full::new(Bytes::from(body.clone())));
        request.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
    /// Whether the body is complete. It is cut when it is too long, or when the connection was lost.
    pub is_complete: bool,
}

/// Sends requests to one server.
pub struct HttpClient {
    authority: String,
    connector: Arc<dyn Connector>,
    timeout: Duration,
    answer_bytes_max: usize,
}

impl HttpClient {
    /// `timeout` is for a whole exchange. The body of an answer is read up to `answer_bytes_max`.
    pub fn new(server: &ServerUrl, timeout: Duration, answer_bytes_max: usize) -> io::Result<Self> {
        let connector = server.connector()?;
        let authority = server.authority().to_owned();
        Ok(HttpClient { authority, connector, timeout, answer_bytes_max })
    }

    pub async fn exchange(&self, request: &Request) -> io::Result<Answer> {
        tokio::time::timeout(self.timeout, self.exchange_untimed(request)).await.unwrap_or_else(
            |_| {
                let message = format!("no answer in {}", humantime::format_duration(self.timeout));
                Err(io::Error::new(io::ErrorKind::TimedOut, message))
            },
        )
    }

    /// [`HttpClient::exchange`] on a runtime of its own.
    pub fn exchange_blocking(&self, request: &Request) -> io::Result<Answer> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.exchange(request))
    }

    async fn exchange_untimed(&self, request: &Request) -> io::Result<Answer> {
        let request = request.for_authority(&self.authority)?;
        let stream = self.connector.connect().await?;
        let (mut sender, connection) = http1::Builder::new()
            .max_headers(HEADERS_MAX)
            // RFC 9112 (5.1, 5.2) lets a client repair these.
            .allow_obsolete_multiline_headers_in_responses(true)
            .allow_spaces_after_header_name_in_responses(true)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        // It ends when the answer was read, or is dropped.
        tokio::spawn(connection);
        self.read(sender.send_request(request).await.map_err(failed)?).await
    }

    async fn read(&self, response: http::Response<Incoming>) -> io::Result<Answer> {
        let status = response.status().as_u16();
        if status == 101 {
            let message = "the server switched to another protocol, which was not asked for";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let mut incoming = response.into_body();
        let mut body = Vec::new();
        let is_complete = loop {
            match incoming.frame().await {
                None => break true,
                // The connection was lost, or the body is not valid.
                Some(Err(_)) => break false,
                Some(Ok(frame)) => {
                    let Ok(bytes) = frame.into_data() else { continue };
                    let room = self.answer_bytes_max - body.len();
                    body.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    if bytes.len() > room {
                        break false;
                    }
                }
            }
        };
        Ok(Answer { status, body, is_complete })
    }
}

/// The error for an exchange without an answer.
fn failed(error: hyper::Error) -> io::Error {
    if error.is_parse() {
        let message = "the answer is not HTTP; check the address";
        return io::Error::new(io::ErrorKind::InvalidData, message);
    }
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        let message = "the server closed the connection without an answer";
        return io::Error::new(io::ErrorKind::UnexpectedEof, message);
    }
    // The cause says more than what it prevented.
    match std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<io::Error>()) {
        Some(cause) => io::Error::new(cause.kind(), cause.to_string()),
        None => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use watchfire_testkit::{response, serve_http};

    use super::*;

    /// Sends a request to a server that reads its head and then does this, once.
    fn exchanged_with(
        serve: impl FnOnce(&mut TcpStream) + Send + 'static,
        timeout: Duration,
    ) -> io::Result<Answer> {
        exchange_with(serve, &Request::get("/"), timeout)
    }

    fn exchange_with(
        serve: impl FnOnce(&mut TcpStream) + Send + 'static,
        request: &Request,
        timeout: Duration,
    ) -> io::Result<Answer> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let serving = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
            serve(&mut stream);
        });
        let client = HttpClient::new(&server, timeout, 10_000).unwrap();
        let answer = client.exchange_blocking(request);
        serving.join().unwrap();
        answer
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn an_endless_answer_is_read_up_to_the_limit() {
        let endless = |stream: &mut TcpStream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            while stream.write_all(&[b'x'; 1_000]).is_ok() {}
        };
        let answer = exchanged_with(endless, LONG).unwrap();
        assert_eq!((answer.status, answer.is_complete), (200, false));
        assert_eq!(answer.body.len(), 10_000);
    }

    #[test]
    fn a_silent_server_and_one_that_closes_are_errors_that_say_so() {
        let until_closed = |stream: &mut TcpStream| drop(stream.read(&mut [0; 1]));
        let error = exchanged_with(until_closed, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.to_string(), "no answer in 50ms");
        let error = exchanged_with(|_| {}, LONG).unwrap_err();
        assert_eq!(error.to_string(), "the server closed the connection without an answer");
    }

    include!("../../../tests/vectors/http_answers.rs");

    #[test]
    fn every_form_of_an_answer_is_read() {
        for vector in vectors() {
            let (bytes, closes) = (vector.bytes(), vector.closes);
            let method = if vector.method == "HEAD" { "HEAD" } else { "GET" };
            let request = Request { method, ..Request::get("/") };
            let serve = move |stream: &mut TcpStream| {
                stream.write_all(&bytes).unwrap();
                if !closes {
                    // The answer ends where its head says, and not with the connection.
                    drop(stream.read(&mut [0; 1]));
                }
            };
            let answer = exchange_with(serve, &request, LONG);
            let found = answer.ok().filter(|answer| answer.is_complete);
            let found = found.map(|one| (one.status, String::from_utf8(one.body).unwrap()));
            vector.check("terminal", found.as_ref().map(|(status, body)| (*status, body.as_str())));
        }
    }

    #[test]
    fn the_head_of_a_request_has_its_headers() {
        let head = |request: Request| {
            let (sender, receiver) = std::sync::mpsc::channel();
            let authority = serve_http(move |request| {
                let body = String::from_utf8_lossy(&request.body);
                sender.send(format!("{}{body}", request.head)).unwrap();
                Some(response("200 OK", &[], ""))
            });
            let authority = authority.to_string();
            let server = format!("http://{authority}").parse().unwrap();
            HttpClient::new(&server, LONG, 10).unwrap().exchange_blocking(&request).unwrap();
            receiver.recv().unwrap().replace(&authority, "h")
        };
        let post = Request {
            method: "POST",
            headers: vec![("Authorization", "Bearer x".into())],
            body: b"{}".to_vec(),
            ..Request::get("/a?b=c")
        };
        assert_eq!(
            head(post.clone()),
            format!(
                "POST /a?b=c HTTP/1.1\r\nhost: h\r\nconnection: close\r\nuser-agent: {USER_AGENT}\r\n\
                 accept: */*\r\nauthorization: Bearer x\r\ncontent-length: 2\r\n\r\n{{}}"
            )
        );
        let get = head(Request::get("/"));
        assert!(
            get.ends_with(&format!("user-agent: {USER_AGENT}\r\naccept: */*\r\n\r\n")),
            "{get}"
        );
        let empty = head(Request { body: Vec::new(), headers: Vec::new(), ..post });
        assert!(empty.ends_with("content-length: 0\r\n\r\n"), "{empty}");
    }
}
