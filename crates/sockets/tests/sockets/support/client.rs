use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use watchfire_testkit::DEADLINE;

/// A client that sends exactly the given bytes.
pub struct Client<S = TcpStream> {
    pub stream: S,
    /// Bytes that were read but not used yet.
    ahead: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The final bit, the reserved ones and the opcode.
    pub first: u8,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn text(text: &str) -> Self {
        Frame { first: 0x81, payload: text.into() }
    }

    pub fn binary(bytes: &[u8]) -> Self {
        Frame { first: 0x82, payload: bytes.into() }
    }

    pub fn pong(bytes: &[u8]) -> Self {
        Frame { first: 0x8a, payload: bytes.into() }
    }

    pub fn close_code(&self) -> Option<u16> {
        assert_eq!(self.first, 0x88, "{self:?} is not a close frame");
        self.payload.first_chunk().map(|code| u16::from_be_bytes(*code))
    }
}

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A masked frame; `first` holds its final bit, reserved bits and opcode.
pub fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = masked_header(first, payload.len() as u64);
    out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

/// Only the header, which may announce any length.
pub fn masked_header(first: u8, len: u64) -> Vec<u8> {
    let mut out = vec![first];
    match len {
        0..=125 => out.push(0x80 | len as u8),
        126..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        _ => {
            out.push(0x80 | 127);
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
    out.extend_from_slice(&MASK);
    out
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        Client::over(stream)
    }

    /// A second handle to the connection, for another thread.
    pub fn try_clone(&self) -> Self {
        Client::over(self.stream.try_clone().unwrap())
    }

    pub fn end_writing(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }
}

impl<S: Read + Write> Client<S> {
    pub fn over(stream: S) -> Self {
        Client { stream, ahead: Vec::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends to a server that may have closed the connection.
    pub fn send_ignoring_errors(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    pub fn text(&mut self, text: &str) {
        self.send(masked(0x81, text.as_bytes()));
    }

    pub fn upgrade(&mut self, path: &str) {
        self.send(upgrade_request(path));
        let head = self.read_head();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    }

    /// Reads more bytes; 0 at the end.
    fn read_more(&mut self) -> usize {
        let mut buffer = [0; 65536];
        match self.stream.read(&mut buffer) {
            Ok(len) => {
                self.ahead.extend_from_slice(&buffer[..len]);
                len
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("no bytes within the deadline: {error}"),
        }
    }

    pub fn read_exact(&mut self, len: usize) -> Vec<u8> {
        while self.ahead.len() < len {
            assert_ne!(self.read_more(), 0, "the end after {:?}", self.ahead);
        }
        self.ahead.drain(..len).collect()
    }

    /// Reads a response's head, its empty line included.
    pub fn read_head(&mut self) -> String {
        loop {
            if let Some(at) = self.ahead.windows(4).position(|four| four == b"\r\n\r\n") {
                return String::from_utf8(self.read_exact(at + 4)).unwrap();
            }
            assert_ne!(self.read_more(), 0, "the end after {:?}", self.ahead);
        }
    }

    /// Reads a response with a `content-length`: its status and body.
    pub fn read_response(&mut self) -> (u16, String) {
        let head = self.read_head().to_ascii_lowercase();
        let status = head[9..12].parse().unwrap();
        let len = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |len| len.parse().unwrap());
        (status, String::from_utf8(self.read_exact(len)).unwrap())
    }

    pub fn get(&mut self, path: &str) -> (u16, String) {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n"));
        self.read_response()
    }

    pub fn read_frame(&mut self) -> Frame {
        let header = self.read_exact(2);
        let len = match header[1] {
            126 => u16::from_be_bytes(self.read_exact(2).try_into().unwrap()).into(),
            127 => u64::from_be_bytes(self.read_exact(8).try_into().unwrap()) as usize,
            len @ 0..=125 => usize::from(len),
            _ => panic!("a server's frame is not masked"),
        };
        Frame { first: header[0], payload: self.read_exact(len) }
    }

    /// Reads a close frame, and the end after it.
    pub fn read_close(&mut self) -> Option<u16> {
        let code = self.read_frame().close_code();
        self.expect_end();
        code
    }

    /// Checks that the server has closed its side, and that no bytes are left.
    pub fn expect_end(&mut self) {
        while self.read_more() > 0 {}
        assert!(self.ahead.is_empty(), "{:?} before the end", self.ahead);
    }
}

pub fn upgrade_request(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nhost: test\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}
