//! A client's connection: a WebSocket, or the requests of a long-poll session. Nothing here waits for the
//! server, except the opening of a connection and a POST, whose answers need no other client.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use serde_json::Value;
use socket2::{Domain, Socket, Type};
use tungstenite::{Error, Message, WebSocket};
use watchfire_channels::Serializer;

use crate::testing::frames::{Received, Sent, decode_bytes, decode_text};

/// A timeout that is long enough for a busy machine.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

/// How a connection or a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A WebSocket's close frame.
    Code(u16),
    /// The session has ended: status 410. The token of a new session, if the server opened one.
    Gone(Option<String>),
    /// The session ends with the server: status 500.
    Restarting,
    /// The connection ended, and nothing said why.
    Silent(String),
}

/// The next input of a client.
pub(super) enum Next {
    Message(Received),
    Nothing,
    End(End),
}

pub(super) enum Transport {
    WebSocket(Box<WebSocket<TcpStream>>),
    LongPoll(LongPoll),
}

/// The address, the serializer and the token of a new client.
pub(super) struct Opening<'a> {
    pub address: SocketAddr,
    pub serializer: Serializer,
    pub token: &'a str,
    /// The size of the client's receive buffer, for a slow reader.
    pub receive_bytes: Option<usize>,
}

impl Opening<'_> {
    fn vsn(&self) -> &'static str {
        match self.serializer {
            Serializer::V1 => "1.0.0",
            Serializer::V2 => "2.0.0",
        }
    }

    fn stream(&self) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(self.address), Type::STREAM, None)?;
        if let Some(bytes) = self.receive_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        socket.connect(&self.address.into())?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(5 * DEADLINE))?;
        Ok(stream)
    }
}

impl Transport {
    pub fn open_websocket(opening: &Opening<'_>) -> Result<Transport, String> {
        let (address, vsn, token) = (opening.address, opening.vsn(), opening.token);
        let url = format!("ws://{address}/socket/websocket?vsn={vsn}&token={token}");
        let stream = opening.stream().map_err(|error| error.to_string())?;
        let (socket, _) = tungstenite::client(url, stream).map_err(|error| error.to_string())?;
        socket.get_ref().set_nonblocking(true).map_err(|error| error.to_string())?;
        Ok(Transport::WebSocket(Box::new(socket)))
    }

    pub fn open_long_poll(opening: &Opening<'_>) -> Result<Transport, String> {
        let auth = format!("x-phoenix-authtoken: {}\r\n", opening.token);
        let mut session = LongPoll {
            auth: auth.clone(),
            opening: (opening.address, opening.serializer),
            vsn: opening.vsn(),
            token: String::new(),
            poll: None,
            post: None,
            messages: VecDeque::new(),
        };
        let mut http = Http::connect(opening.address).map_err(|error| error.to_string())?;
        http.request("GET", &session.path(), &auth, b"").map_err(|error| error.to_string())?;
        let answer = http.wait().map_err(|error| error.to_string())?;
        let body = answer.json().ok_or_else(|| format!("{answer:?}"))?;
        session.token = match (body["status"].as_u64(), body["token"].as_str()) {
            (Some(410), Some(token)) => token.to_owned(),
            _ => return Err(format!("{answer:?}")),
        };
        session.post = Some(http);
        Ok(Transport::LongPoll(session))
    }

    pub fn is_websocket(&self) -> bool {
        matches!(self, Transport::WebSocket(_))
    }

    /// The descriptor that becomes readable when there is something to read.
    pub fn readable(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Transport::WebSocket(socket) => Some(socket.get_ref().as_fd()),
            Transport::LongPoll(session) => session.poll.as_ref().map(|http| http.stream.as_fd()),
        }
    }

    /// The next message, if one has arrived. A long-poll client polls again when its poll was answered.
    pub fn next(&mut self, serializer: Serializer) -> Next {
        match self {
            Transport::WebSocket(socket) => next_of_websocket(socket, serializer),
            Transport::LongPoll(session) => session.next(),
        }
    }

    /// Sends messages; binary ones if `as_bytes`.
    pub fn send(
        &mut self,
        serializer: Serializer,
        all: &[Sent],
        as_bytes: bool,
    ) -> Result<(), End> {
        match self {
            Transport::WebSocket(socket) => {
                for sent in all {
                    let message = match as_bytes {
                        true => Message::binary(note_bytes(sent)),
                        false => Message::text(sent.text(serializer)),
                    };
                    match socket.send(message) {
                        Ok(()) => {}
                        Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {}
                        // The reason is read, not written.
                        Err(_) => return Ok(()),
                    }
                }
                Ok(())
            }
            Transport::LongPoll(session) => {
                let lines = all.iter().map(|sent| match as_bytes {
                    true => base64(&note_bytes(sent)),
                    false => sent.text(serializer),
                });
                session.post(&lines.collect::<Vec<_>>().join("\n"))
            }
        }
    }

    /// Sends a text that is not a message.
    pub fn send_raw(&mut self, text: &str) -> Result<(), End> {
        match self {
            Transport::WebSocket(socket) => {
                socket.send(Message::text(text)).ok();
                Ok(())
            }
            Transport::LongPoll(session) => session.post(text),
        }
    }
}

/// A binary push with the number of a note.
fn note_bytes(sent: &Sent) -> Vec<u8> {
    sent.bytes(sent.payload["n"].to_string().as_bytes())
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn next_of_websocket(socket: &mut WebSocket<TcpStream>, serializer: Serializer) -> Next {
    loop {
        let received = match socket.read() {
            Ok(Message::Text(text)) => decode_text(serializer, &text),
            Ok(Message::Binary(bytes)) => decode_bytes(&bytes),
            Ok(Message::Close(frame)) => {
                // Sends the answer, for which the server waits.
                socket.flush().ok();
                let code = frame.map(|frame| u16::from(frame.code));
                return Next::End(code.map_or(End::Silent("no code".into()), End::Code));
            }
            Ok(_) => continue,
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {
                return Next::Nothing;
            }
            Err(error) => return Next::End(End::Silent(error.to_string())),
        };
        return Next::Message(received.expect("the server sends valid messages"));
    }
}

/// A long-poll session.
pub(super) struct LongPoll {
    opening: (SocketAddr, Serializer),
    /// The header with the client's token, for a session that the server opens anew.
    auth: String,
    vsn: &'static str,
    token: String,
    /// The connection of the poll that waits.
    poll: Option<Http>,
    /// The connection of POSTs, kept open.
    post: Option<Http>,
    /// The messages of earlier answers.
    messages: VecDeque<Received>,
}

impl LongPoll {
    fn path(&self) -> String {
        format!("/socket/longpoll?vsn={}", self.vsn)
    }

    fn head(&self) -> String {
        format!("{}x-phoenix-longpoll-token: {}\r\n", self.auth, self.token)
    }

    /// Sends further requests to another process.
    pub fn move_to(&mut self, address: SocketAddr) {
        self.opening.0 = address;
        self.post = None;
    }

    /// Cuts the connection of the poll, and waits until the server has noticed. The session goes on. Messages
    /// that the server sent before are kept.
    pub fn cut_poll(&mut self) -> Result<(), End> {
        let Some(mut poll) = self.poll.take() else { return Ok(()) };
        poll.stream.shutdown(Shutdown::Write).ok();
        loop {
            match poll.wait() {
                Ok(answer) => self.accept(&answer)?,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Err(End::Silent("the server does not notice a cut poll".into()));
                }
                Err(_) => return Ok(()),
            }
        }
    }

    /// Continues with the session that the server opened in place of one that has ended.
    pub fn adopt(&mut self, token: String) {
        self.token = token;
        self.messages.clear();
    }

    fn next(&mut self) -> Next {
        if let Some(message) = self.messages.pop_front() {
            return Next::Message(message);
        }
        let mut poll = match self.poll.take() {
            Some(poll) => poll,
            None => match self.begin_poll() {
                Ok(poll) => poll,
                Err(error) => return Next::End(End::Silent(error.to_string())),
            },
        };
        let answer = match poll.answer() {
            Ok(Some(answer)) => answer,
            Ok(None) => {
                self.poll = Some(poll);
                return Next::Nothing;
            }
            Err(error) => return Next::End(End::Silent(error.to_string())),
        };
        if let Err(end) = self.accept(&answer) {
            return Next::End(end);
        }
        if poll.request("GET", &self.path(), &self.head(), b"").is_ok() {
            self.poll = Some(poll);
        }
        self.messages.pop_front().map_or(Next::Nothing, Next::Message)
    }

    /// Takes the messages of the answer to a poll.
    fn accept(&mut self, answer: &Answer) -> Result<(), End> {
        let silent = || End::Silent(format!("{answer:?}"));
        let body = answer.json().ok_or_else(silent)?;
        match body["status"].as_u64() {
            Some(200 | 204) => {}
            Some(410) => return Err(End::Gone(body["token"].as_str().map(str::to_owned))),
            Some(500) => return Err(End::Restarting),
            _ => return Err(silent()),
        }
        self.token = body["token"].as_str().expect("a poll repeats its token").to_owned();
        let frames = body["messages"].as_array().into_iter().flatten();
        let serializer = self.opening.1;
        let decode = |frame: &Value| decode_text(serializer, frame.as_str()?);
        let decoded: Option<Vec<Received>> = frames.map(decode).collect();
        self.messages.extend(decoded.expect("the server sends valid messages"));
        Ok(())
    }

    fn begin_poll(&self) -> io::Result<Http> {
        let mut http = Http::connect(self.opening.0)?;
        http.request("GET", &self.path(), &self.head(), b"")?;
        Ok(http)
    }

    fn post(&mut self, body: &str) -> Result<(), End> {
        let silent = |error: io::Error| End::Silent(error.to_string());
        let head = format!("{}content-type: application/x-ndjson\r\n", self.head());
        let mut attempts = 0;
        let (http, answer) = loop {
            let mut http = match self.post.take() {
                Some(http) => http,
                None => Http::connect(self.opening.0).map_err(silent)?,
            };
            let sent = http.request("POST", &self.path(), &head, body.as_bytes());
            match sent.and_then(|()| http.wait()) {
                Ok(answer) => break (http, answer),
                // The process of an idle connection has ended.
                Err(_) if attempts == 0 => attempts += 1,
                Err(error) => return Err(silent(error)),
            }
        };
        self.post = Some(http);
        match answer.json().and_then(|body| body["status"].as_u64()) {
            Some(200) => Ok(()),
            Some(410) => Err(End::Gone(None)),
            _ => Err(End::Silent(format!("{answer:?}"))),
        }
    }
}

/// A connection for one HTTP request at a time.
struct Http {
    stream: TcpStream,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Answer {
    status: u16,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Option<Value> {
        (self.status == 200).then(|| serde_json::from_slice(&self.body).ok()).flatten()
    }
}

impl Http {
    fn connect(address: SocketAddr) -> io::Result<Http> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(5 * DEADLINE))?;
        Ok(Http { stream, buffer: Vec::new() })
    }

    fn request(&mut self, method: &str, path: &str, head: &str, body: &[u8]) -> io::Result<()> {
        let len = body.len();
        let length =
            if body.is_empty() { String::new() } else { format!("content-length: {len}\r\n") };
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{head}{length}\r\n")
                .into_bytes();
        request.extend_from_slice(body);
        self.stream.set_nonblocking(false)?;
        self.stream.write_all(&request)
    }

    /// The answer, if it has arrived.
    fn answer(&mut self) -> io::Result<Option<Answer>> {
        self.stream.set_nonblocking(true)?;
        loop {
            if let Some(answer) = self.parse()? {
                return Ok(Some(answer));
            }
            match self.read() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the answer.
    fn wait(&mut self) -> io::Result<Answer> {
        self.stream.set_nonblocking(false)?;
        loop {
            if let Some(answer) = self.parse()? {
                return Ok(answer);
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 << 10];
        match self.stream.read(&mut bytes)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            len => {
                self.buffer.extend_from_slice(&bytes[..len]);
                Ok(())
            }
        }
    }

    fn parse(&mut self) -> io::Result<Option<Answer>> {
        let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).to_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let len: Option<usize> =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let (Some(status), Some(len)) = (status, len) else {
            return Err(io::Error::new(ErrorKind::InvalidData, head));
        };
        let all = end + 4 + len;
        if self.buffer.len() < all {
            return Ok(None);
        }
        let body = self.buffer[end + 4..all].to_vec();
        self.buffer.drain(..all);
        Ok(Some(Answer { status, body }))
    }
}
