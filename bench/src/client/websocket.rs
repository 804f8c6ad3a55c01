use anyhow::{Result, bail, ensure};

use super::event::Event;
use super::phoenix::Phoenix;
use super::socket_io::SocketIo;
use crate::message::{self, WEBSOCKET_ACCEPT, WEBSOCKET_KEY};

/// A websocket: upgrade, frames and close. Other types interpret the content of its frames.
pub struct Websocket {
    stage: Stage,
    protocol: Protocol,
}

#[derive(PartialEq)]
enum Stage {
    Upgrading,
    Open,
    Closing,
}

/// The protocol inside the text frames.
pub enum Protocol {
    Phoenix(Phoenix),
    SocketIo(SocketIo),
}

impl Websocket {
    pub fn new(protocol: Protocol) -> Self {
        Websocket { stage: Stage::Upgrading, protocol }
    }

    pub fn open(&mut self, out: &mut Vec<u8>) {
        let path = match &self.protocol {
            Protocol::Phoenix(_) => "/socket/websocket?vsn=2.0.0",
            Protocol::SocketIo(_) => "/socket.io/?EIO=4&transport=websocket",
        };
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: {WEBSOCKET_KEY}\r\n\r\n"
        );
        out.extend_from_slice(request.as_bytes());
    }

    pub fn push_message(&mut self, out: &mut Vec<u8>) {
        let push = match &self.protocol {
            Protocol::Phoenix(_) => &message::PUSH,
            Protocol::SocketIo(_) => &super::socket_io::PUSH,
        };
        message::put_client_text(push, out);
    }

    /// Send a heartbeat, if it is the client that sends them in this protocol.
    pub fn heartbeat(&mut self, out: &mut Vec<u8>) {
        match &self.protocol {
            Protocol::Phoenix(_) => message::put_client_text(message::HEARTBEAT, out),
            Protocol::SocketIo(_) => {} // the server pings
        }
    }

    pub fn close(&mut self, out: &mut Vec<u8>) {
        self.stage = Stage::Closing;
        message::put_client_frame(message::CLOSE, &1000_u16.to_be_bytes(), out);
    }

    /// Consume one message; returns `0` when more bytes are needed.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<usize> {
        if self.stage == Stage::Upgrading {
            return self.receive_upgrade(bytes, out);
        }
        let Some(frame) = message::frame(bytes) else { return Ok(0) };
        ensure!(frame.mask.is_none(), "the server sent a masked frame");
        match frame.opcode {
            message::TEXT => {
                let text = std::str::from_utf8(frame.payload)?;
                events.extend(match &mut self.protocol {
                    Protocol::Phoenix(phoenix) => phoenix.receive(text)?,
                    Protocol::SocketIo(socket_io) => socket_io.receive(text, out)?,
                });
            }
            message::PING => message::put_client_frame(message::PONG, frame.payload, out),
            message::CLOSE if self.stage != Stage::Closing => {
                let (code, reason) = frame.payload.split_at(frame.payload.len().min(2));
                let code = code.iter().fold(0, |code, byte| code << 8 | u32::from(*byte));
                bail!("the server closed with {code} {}", String::from_utf8_lossy(reason));
            }
            _ => {}
        }
        Ok(frame.len)
    }

    fn receive_upgrade(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize> {
        let Some(response) = message::http_message(bytes) else { return Ok(0) };
        ensure!(
            response.line.contains(" 101 "),
            "the server rejected the upgrade: {}",
            response.line
        );
        let accept = response.header("sec-websocket-accept");
        ensure!(accept == Some(WEBSOCKET_ACCEPT), "the upgrade response has a wrong accept value");
        self.stage = Stage::Open;
        match &self.protocol {
            Protocol::Phoenix(phoenix) => phoenix.open(out),
            Protocol::SocketIo(_) => {} // the server sends first
        }
        Ok(response.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        message::put_server_frame(message::TEXT, text.as_bytes(), &mut bytes);
        bytes
    }

    #[test]
    fn a_socket_joins_after_its_upgrade_and_counts_only_the_message() {
        let mut socket = Websocket::new(Protocol::Phoenix(Phoenix::in_lobby()));
        let (mut out, mut events) = (Vec::new(), Vec::new());
        let response =
            format!("HTTP/1.1 101 x\r\nSec-WebSocket-Accept: {WEBSOCKET_ACCEPT}\r\n\r\n");
        assert_eq!(
            socket.receive(response.as_bytes(), &mut out, &mut events).unwrap(),
            response.len()
        );
        assert!(!out.is_empty());

        for text in [message::JOINED, r#"[null,null,"rooms:lobby","presence_diff",{}]"#] {
            socket.receive(&frame(text), &mut out, &mut events).unwrap();
        }
        socket.receive(&frame(&message::BROADCAST), &mut out, &mut events).unwrap();
        assert_eq!(events, [Event::Joined, Event::Message]);
    }
}
