use anyhow::{Result, bail, ensure};

use super::conversation::Event;
use crate::message::{self, TOPIC, WEBSOCKET_ACCEPT, WEBSOCKET_KEY};

/// A websocket joined to the room by Phoenix's V2 protocol.
#[derive(Default)]
pub struct Websocket {
    stage: Stage,
}

#[derive(Default, PartialEq)]
enum Stage {
    #[default]
    Upgrading,
    Joining,
    Joined,
    Closing,
}

impl Websocket {
    pub fn open(&mut self, out: &mut Vec<u8>) {
        let request = format!(
            "GET /socket/websocket?vsn=2.0.0 HTTP/1.1\r\nHost: localhost\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: {WEBSOCKET_KEY}\r\n\r\n"
        );
        out.extend_from_slice(request.as_bytes());
    }

    pub fn say(&mut self, out: &mut Vec<u8>) {
        message::put_client_frame(message::TEXT, message::PUSH.as_bytes(), out);
    }

    pub fn heartbeat(&mut self, out: &mut Vec<u8>) {
        message::put_client_frame(message::TEXT, message::HEARTBEAT.as_bytes(), out);
    }

    pub fn close(&mut self, out: &mut Vec<u8>) {
        self.stage = Stage::Closing;
        message::put_client_frame(message::CLOSE, &1000_u16.to_be_bytes(), out);
    }

    /// One step; `0` when more bytes are needed.
    pub fn take_in(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<usize> {
        if self.stage == Stage::Upgrading {
            return self.take_in_upgrade(bytes, out);
        }
        let Some(frame) = message::frame(bytes) else { return Ok(0) };
        ensure!(frame.mask.is_none(), "the server sent a masked frame");
        match frame.opcode {
            message::TEXT => self.take_in_text(frame.payload, events)?,
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

    fn take_in_upgrade(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize> {
        let Some(answer) = message::http_message(bytes) else { return Ok(0) };
        ensure!(answer.line.contains(" 101 "), "the upgrade was refused: {}", answer.line);
        let accept = answer.header("sec-websocket-accept");
        ensure!(accept == Some(WEBSOCKET_ACCEPT), "the upgrade has the wrong accept value");
        message::put_client_frame(message::TEXT, message::JOIN.as_bytes(), out);
        self.stage = Stage::Joining;
        Ok(answer.len)
    }

    fn take_in_text(&mut self, payload: &[u8], events: &mut Vec<Event>) -> Result<()> {
        let text = std::str::from_utf8(payload)?;
        if let Some(event) = understand(text)? {
            if event == Event::Joined {
                self.stage = Stage::Joined;
            }
            events.push(event);
        }
        Ok(())
    }
}

/// What a V2 text frame means to the bench; `None` for what it does not count.
pub fn understand(text: &str) -> Result<Option<Event>> {
    if text == *message::BROADCAST {
        return Ok(Some(Event::Message));
    }
    let (_, reference, topic, event, payload): (
        serde_json::Value,
        Option<String>,
        String,
        String,
        serde_json::Value,
    ) = serde_json::from_str(text)?;
    match (event.as_str(), reference.as_deref()) {
        ("phx_reply", Some(reference)) => {
            ensure!(payload["status"] == "ok", "refused: {text}");
            Ok(match reference {
                "1" => Some(Event::Joined),
                "2" => Some(Event::HeartbeatAnswered),
                _ => None,
            })
        }
        ("new_msg", _) if topic == TOPIC => {
            bail!("the message came as {} bytes: {text}", text.len())
        }
        ("phx_error" | "phx_close", _) => bail!("the channel ended: {text}"),
        _ => Ok(None),
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
        let (mut socket, mut out, mut events) = (Websocket::default(), Vec::new(), Vec::new());
        let answer = format!("HTTP/1.1 101 x\r\nSec-WebSocket-Accept: {WEBSOCKET_ACCEPT}\r\n\r\n");
        assert_eq!(socket.take_in(answer.as_bytes(), &mut out, &mut events).unwrap(), answer.len());
        assert!(!out.is_empty());

        for text in [message::JOINED, r#"[null,null,"rooms:lobby","presence_diff",{}]"#] {
            socket.take_in(&frame(text), &mut out, &mut events).unwrap();
        }
        socket.take_in(&frame(&message::BROADCAST), &mut out, &mut events).unwrap();
        assert_eq!(events, [Event::Joined, Event::Message]);
    }

    #[test]
    fn a_message_of_another_size_fails_the_run() {
        let error = understand(r#"[null,null,"rooms:lobby","new_msg",{"body":"w"}]"#).unwrap_err();
        assert!(error.to_string().contains("48 bytes"), "{error}");
    }
}
