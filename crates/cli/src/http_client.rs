//! HTTP requests to a server: one request, one connection, one answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use watchfire_page_client::{Connector, ServerUrl};

/// A request. Its head has no other characters than visible ASCII and spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: &'static str,
    /// The path, with the query.
    pub path: String,
    /// Headers besides `Host`, `Content-Length` and `Connection`.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// A GET without headers.
    pub fn get(path: impl Into<String>) -> Self {
        Request { method: "GET", path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    fn head(&self, authority: &str) -> String {
        let Request { method, path, headers, body } = self;
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {authority}\r\n");
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        if *method != "GET" {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head + "Connection: close\r\n\r\n"
    }
}

/// The answer to a request.
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
    answer_bytes_max: u64,
}

impl HttpClient {
    /// `timeout` is for a whole exchange. An answer is read up to `answer_bytes_max`, head included.
    pub fn new(server: &ServerUrl, timeout: Duration, answer_bytes_max: u64) -> io::Result<Self> {
        let connector = server.connector()?;
        let authority = server.authority().to_owned();
        Ok(HttpClient { authority, connector, timeout, answer_bytes_max })
    }

    /// Sends a request, and waits for the answer.
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
        let mut connection = self.connector.connect().await?;
        connection.write_all(request.head(&self.authority).as_bytes()).await?;
        // A server that refuses the request may not read the whole body.
        let written = connection.write_all(&request.body).await;
        let mut bytes = Vec::new();
        let read = connection.take(self.answer_bytes_max).read_to_end(&mut bytes).await;
        if bytes.is_empty() {
            written.and(read)?;
            let message = "the server closed the connection without an answer";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        let is_whole = read.is_ok() && (bytes.len() as u64) < self.answer_bytes_max;
        parse(&bytes, is_whole).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP; check the address")
        })
    }
}

/// `is_whole`: the bytes are all that the server sent. `None`: they are not HTTP.
fn parse(bytes: &[u8], is_whole: bool) -> Option<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let head = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]);
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let is_http = words.next()?.starts_with("HTTP/1.");
    let status = words.next()?.parse().ok().filter(|_| is_http)?;
    let Some(end) = end else {
        return Some(Answer { status, body: Vec::new(), is_complete: false });
    };
    let body = &bytes[end + 4..];
    let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    let header = |name: &str| {
        let found = headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    };
    let is_chunked =
        header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
    let (body, is_complete) = match header("content-length").and_then(|value| value.parse().ok()) {
        _ if is_chunked => joined_chunks(body),
        Some(length) => (body[..body.len().min(length)].to_vec(), body.len() >= length),
        None => (body.to_vec(), is_whole),
    };
    Some(Answer { status, body, is_complete })
}

/// The bytes of all chunks, and whether the last one is among them.
fn joined_chunks(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let line = String::from_utf8_lossy(&rest[..end]);
        let length = line.split(';').next().unwrap_or_default().trim();
        let Ok(length) = usize::from_str_radix(length, 16) else { break };
        rest = &rest[end + 2..];
        body.extend_from_slice(&rest[..rest.len().min(length)]);
        if length == 0 {
            return (body, true);
        }
        let Some(next) = length.checked_add(2).and_then(|skipped| rest.get(skipped..)) else {
            break;
        };
        rest = next;
    }
    (body, false)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;

    /// Sends a request to a server that reads its head and then does this, once.
    fn exchanged_with(
        serve: impl FnOnce(&mut TcpStream) + Send + 'static,
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
        let answer = client.exchange_blocking(&Request::get("/"));
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
        assert_eq!(answer.body.len(), 10_000 - b"HTTP/1.1 200 OK\r\n\r\n".len());
    }

    #[test]
    fn a_silent_server_and_one_that_closes_are_errors_that_say_so() {
        let until_closed = |stream: &mut TcpStream| drop(stream.read(&mut [0; 1]));
        let error = exchanged_with(until_closed, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.to_string(), "no answer in 50ms");
        let error = exchanged_with(|_| {}, LONG).unwrap_err();
        assert_eq!(error.to_string(), "the server closed the connection without an answer");
    }

    fn parsed(text: &str) -> Option<(u16, String, bool)> {
        let Answer { status, body, is_complete } = parse(text.as_bytes(), true)?;
        Some((status, String::from_utf8(body).unwrap(), is_complete))
    }

    #[test]
    fn the_body_ends_where_the_head_says() {
        let answer = |rest: &str| parsed(&format!("HTTP/1.1 200 OK\r\n{rest}"));
        let found = |body: &str, is_complete| Some((200, body.to_owned(), is_complete));
        assert_eq!(answer("\r\nuntil the end"), found("until the end", true));
        assert_eq!(answer("content-length: 3\r\n\r\nabcd"), found("abc", true));
        assert_eq!(answer("Content-Length: 5\r\n\r\nabcd"), found("abcd", false));
        let chunked = "Transfer-Encoding: chunked\r\n\r\n";
        assert_eq!(
            answer(&format!("{chunked}2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n")),
            found("abc", true)
        );
        assert_eq!(answer(&format!("{chunked}2\r\nab\r\n5\r\nc")), found("abc", false));
        assert_eq!(answer(&format!("{chunked}ffffffffffffffff\r\nab")), found("ab", false));
        assert_eq!(answer(&format!("{chunked}-1\r\nab")), found("", false));
        assert_eq!(answer("content-le"), found("", false));
    }

    #[test]
    fn an_answer_that_is_not_http_is_none() {
        for text in ["SSH-2.0-x\r\n", "", "HTTP/1.1\r\n\r\n", "HTTP/1.1 OK\r\n\r\n", "\r\n\r\n"] {
            assert_eq!(parsed(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_head_of_a_request_has_its_headers() {
        let request = Request {
            method: "POST",
            headers: vec![("Authorization", "Bearer x".into())],
            body: b"{}".to_vec(),
            ..Request::get("/a?b=c")
        };
        assert_eq!(
            request.head("localhost:1"),
            "POST /a?b=c HTTP/1.1\r\nHost: localhost:1\r\nAuthorization: Bearer x\r\n\
             Content-Length: 2\r\nConnection: close\r\n\r\n"
        );
        let get = Request::get("/").head("h");
        assert_eq!(get, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    }
}
