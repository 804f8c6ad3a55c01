//! A client's connection: a WebSocket, or the requests of a long-poll session. Nothing here waits for the
//! server, except the opening of a connection and a POST, whose answers need no other client.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
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

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Silent(error.to_string())
    }
}

pub(super) enum Transport {
    WebSocket(Box<WebSocket<TcpStream>>),
    LongPoll(LongPoll),
}

/// The address, the serializer and the token of a new client.
#[derive(Clone)]
pub(super) struct Opening {
    pub address: SocketAddr,
    pub serializer: Serializer,
    pub token: String,
    /// The size of a WebSocket's receive buffer, for a slow reader.
    pub receive_bytes: Option<usize>,
}

impl Opening {
    fn query(&self) -> &'static str {
        match self.serializer {
            Serializer::V1 => "vsn=1.0.0",
            Serializer::V2 | Serializer::Events => "vsn=2.0.0",
        }
    }

    fn websocket(&self) -> Result<WebSocket<TcpStream>, End> {
        let socket = Socket::new(Domain::for_address(self.address), Type::STREAM, None)?;
        if let Some(bytes) = self.receive_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        socket.connect(&self.address.into())?;
        let (address, query, token) = (self.address, self.query(), &self.token);
        let url = format!("ws://{address}/socket/websocket?{query}&token={token}");
        let opened = tungstenite::client(url, prepare(socket.into())?);
        let (socket, _) = opened.map_err(|error| End::Silent(error.to_string()))?;
        socket.get_ref().set_nonblocking(true)?;
        Ok(socket)
    }

    fn long_poll(self) -> Result<LongPoll, End> {
        let mut session = LongPoll {
            opening: self,
            token: None,
            poll: None,
            post: None,
            messages: VecDeque::new(),
        };
        let mut http = session.begin_poll()?;
        match session.accept(&http.wait()?) {
            Err(End::Gone(Some(token))) => session.adopt(token),
            other => return Err(End::Silent(format!("no session was opened: {other:?}"))),
        }
        session.post = Some(http);
        Ok(session)
    }
}

fn prepare(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(5 * DEADLINE))?;
    Ok(stream)
}

impl Transport {
    pub fn open(opening: Opening, is_websocket: bool) -> Result<Transport, End> {
        Ok(match is_websocket {
            true => Transport::WebSocket(Box::new(opening.websocket()?)),
            false => Transport::LongPoll(opening.long_poll()?),
        })
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
    pub fn next(&mut self, serializer: Serializer) -> Result<Option<Received>, End> {
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
        // A binary push has the number of a note.
        let bytes = |sent: &Sent| sent.bytes(sent.payload["n"].to_string().as_bytes());
        match self {
            Transport::WebSocket(socket) => {
                for sent in all {
                    let message = match as_bytes {
                        true => Message::binary(bytes(sent)),
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
                    true => STANDARD.encode(bytes(sent)),
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

fn next_of_websocket(
    socket: &mut WebSocket<TcpStream>,
    serializer: Serializer,
) -> Result<Option<Received>, End> {
    loop {
        let received = match socket.read() {
            Ok(Message::Text(text)) => decode_text(serializer, &text),
            Ok(Message::Binary(bytes)) => decode_bytes(&bytes),
            Ok(Message::Close(frame)) => {
                // Sends the answer, for which the server waits.
                socket.flush().ok();
                let code = frame.map(|frame| u16::from(frame.code));
                return Err(code.map_or(End::Silent("no code".into()), End::Code));
            }
            Ok(_) => continue,
            Err(Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(End::Silent(error.to_string())),
        };
        return Ok(Some(received.expect("the server sends valid messages")));
    }
}

/// A long-poll session.
pub(super) struct LongPoll {
    opening: Opening,
    /// `None` before the session is opened.
    token: Option<String>,
    /// The connection of the poll that waits.
    poll: Option<Http>,
    /// The connection of POSTs, kept open.
    post: Option<Http>,
    /// The messages of earlier answers.
    messages: VecDeque<Received>,
}

impl LongPoll {
    /// Sends further requests to another process.
    pub fn move_to(&mut self, address: SocketAddr) {
        self.opening.address = address;
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
        self.token = Some(token);
        self.messages.clear();
    }

    fn next(&mut self) -> Result<Option<Received>, End> {
        if let Some(message) = self.messages.pop_front() {
            return Ok(Some(message));
        }
        let mut poll = match self.poll.take() {
            Some(poll) => poll,
            None => self.begin_poll()?,
        };
        let Some(answer) = poll.answer()? else {
            self.poll = Some(poll);
            return Ok(None);
        };
        self.accept(&answer)?;
        if self.request(&mut poll, "GET", "").is_ok() {
            self.poll = Some(poll);
        }
        Ok(self.messages.pop_front())
    }

    /// Takes the messages of the answer to a poll.
    fn accept(&mut self, answer: &Value) -> Result<(), End> {
        match answer["status"].as_u64() {
            Some(200 | 204) => {}
            Some(410) => return Err(End::Gone(answer["token"].as_str().map(str::to_owned))),
            Some(500) => return Err(End::Restarting),
            _ => return Err(End::Silent(answer.to_string())),
        }
        self.token = Some(answer["token"].as_str().expect("a poll repeats its token").to_owned());
        let frames = answer["messages"].as_array().into_iter().flatten();
        let serializer = self.opening.serializer;
        let decode = |frame: &Value| decode_text(serializer, frame.as_str()?);
        let decoded: Option<Vec<Received>> = frames.map(decode).collect();
        self.messages.extend(decoded.expect("the server sends valid messages"));
        Ok(())
    }

    fn begin_poll(&self) -> io::Result<Http> {
        let mut http = Http::connect(self.opening.address)?;
        self.request(&mut http, "GET", "")?;
        Ok(http)
    }

    fn request(&self, http: &mut Http, method: &str, body: &str) -> io::Result<()> {
        let Opening { token: auth, .. } = &self.opening;
        let token = self.token.iter().map(|it| format!("x-phoenix-longpoll-token: {it}\r\n"));
        let (query, token) = (self.opening.query(), token.collect::<String>());
        let content = match body.len() {
            0 => String::new(),
            len => format!("content-type: application/x-ndjson\r\ncontent-length: {len}\r\n"),
        };
        http.stream.set_nonblocking(false)?;
        let request = format!(
            "{method} /socket/longpoll?{query} HTTP/1.1\r\nhost: localhost\r\n\
             x-phoenix-authtoken: {auth}\r\n{token}{content}\r\n{body}"
        );
        http.stream.write_all(request.as_bytes())
    }

    fn post(&mut self, body: &str) -> Result<(), End> {
        let mut attempts = 0;
        let (http, answer) = loop {
            let mut http = match self.post.take() {
                Some(http) => http,
                None => Http::connect(self.opening.address)?,
            };
            match self.request(&mut http, "POST", body).and_then(|()| http.wait()) {
                Ok(answer) => break (http, answer),
                // The process of an idle connection has ended.
                Err(_) if attempts == 0 => attempts += 1,
                Err(error) => return Err(error.into()),
            }
        };
        self.post = Some(http);
        match answer["status"].as_u64() {
            Some(200) => Ok(()),
            Some(410) => Err(End::Gone(None)),
            _ => Err(End::Silent(answer.to_string())),
        }
    }
}

/// A connection for one HTTP request at a time.
struct Http {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Http {
    fn connect(address: SocketAddr) -> io::Result<Http> {
        Ok(Http { stream: prepare(TcpStream::connect(address)?)?, buffer: Vec::new() })
    }

    /// The answer, if it has arrived.
    fn answer(&mut self) -> io::Result<Option<Value>> {
        self.stream.set_nonblocking(true)?;
        match self.read_answer() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            read => read.map(Some),
        }
    }

    /// Waits for the answer.
    fn wait(&mut self) -> io::Result<Value> {
        self.stream.set_nonblocking(false)?;
        self.read_answer()
    }

    fn read_answer(&mut self) -> io::Result<Value> {
        loop {
            if let Some(answer) = self.parse()? {
                return Ok(answer);
            }
            let mut bytes = [0; 16 << 10];
            match self.stream.read(&mut bytes)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                len => self.buffer.extend_from_slice(&bytes[..len]),
            }
        }
    }

    /// The body of an answer with the status 200. Any other answer has its parts, for a message.
    fn parse(&mut self) -> io::Result<Option<Value>> {
        let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let head = String::from_utf8_lossy(&self.buffer[..end]).to_lowercase();
        let len: Option<usize> =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let Some(len) = len else {
            return Err(io::Error::new(ErrorKind::InvalidData, head));
        };
        let all = end + 4 + len;
        if self.buffer.len() < all {
            return Ok(None);
        }
        let body = String::from_utf8_lossy(&self.buffer[end + 4..all]).into_owned();
        self.buffer.drain(..all);
        let is_ok = head.starts_with("http/1.1 200 ");
        let answer = is_ok.then(|| serde_json::from_str(&body).ok()).flatten();
        Ok(Some(answer.unwrap_or_else(|| json!({ "head": head, "body": body }))))
    }
}
