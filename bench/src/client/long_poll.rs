use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::event::Event;
use super::phoenix::event_in;
use crate::message;

/// A long-poll session joined to the room, on one persistent connection.
#[derive(Default)]
pub struct LongPoll {
    stage: Stage,
    token: Box<str>,
}

#[derive(Default)]
enum Stage {
    #[default]
    Opening,
    Joining,
    Polling,
}

#[derive(Deserialize)]
struct Response {
    status: u16,
    #[serde(default)]
    token: Option<Box<str>>,
    #[serde(default)]
    messages: Vec<String>,
}

impl LongPoll {
    pub fn open(&mut self, out: &mut Vec<u8>) {
        put_request("GET", None, "", out);
    }

    /// The token of the session, for [`PushSender`].
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Consume one response; returns `0` when more bytes are needed.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<usize> {
        let Some((response, len)) = receive_response(bytes)? else { return Ok(0) };
        if let Some(token) = response.token {
            self.token = token;
        }
        match (&self.stage, response.status) {
            (Stage::Opening, 410) => {
                self.stage = Stage::Joining;
                put_request("POST", Some(&self.token), message::JOIN, out);
            }
            (Stage::Joining, 200) => {
                self.stage = Stage::Polling;
                put_request("GET", Some(&self.token), "", out);
            }
            (Stage::Polling, 200 | 204) => {
                for message in &response.messages {
                    events.extend(event_in(message)?);
                }
                put_request("GET", Some(&self.token), "", out);
            }
            (_, status) => bail!("the poll was answered with status {status}"),
        }
        Ok(len)
    }
}

/// The connection on which a session sends while its poll waits, as in a browser.
///
/// Each message uses a new one, because a server may close an idle connection.
#[derive(Default)]
pub struct PushSender {
    token: Box<str>,
    is_answered: bool,
}

impl PushSender {
    /// Sends for the session with this token once connected.
    pub fn new(token: &str) -> Self {
        PushSender { token: token.into(), is_answered: false }
    }

    pub fn open(&mut self, out: &mut Vec<u8>) {
        put_request("POST", Some(&self.token), &message::PUSH, out);
    }

    /// Whether the push was accepted. From then on the server may close the connection.
    pub fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// Consume one response; returns `0` when more bytes are needed.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<usize> {
        let Some((response, len)) = receive_response(bytes)? else { return Ok(0) };
        ensure!(response.status == 200, "the post was answered with status {}", response.status);
        self.is_answered = true;
        Ok(len)
    }
}

fn receive_response(bytes: &[u8]) -> Result<Option<(Response, usize)>> {
    let Some(http) = message::http_message(bytes) else { return Ok(None) };
    ensure!(http.line.contains(" 200 "), "the server rejected the request: {}", http.line);
    let response = serde_json::from_slice(http.body)
        .with_context(|| format!("unexpected response: {}", http.head))?;
    Ok(Some((response, http.len)))
}

fn put_request(method: &str, token: Option<&str>, body: &str, out: &mut Vec<u8>) {
    let (name, token) = token.map_or(("", ""), |token| ("&token=", token));
    let body_head = if method == "POST" {
        format!("Content-Type: application/x-ndjson\r\nContent-Length: {}\r\n", body.len())
    } else {
        String::new()
    };
    let request = format!(
        "{method} /socket/longpoll?vsn=2.0.0{name}{token} HTTP/1.1\r\nHost: localhost\r\n\
         {body_head}\r\n{body}"
    );
    out.extend_from_slice(request.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(body: &str) -> Vec<u8> {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }

    #[test]
    fn a_session_opens_joins_and_polls_again_after_every_response() {
        let (mut poll, mut out, mut events) = (LongPoll::default(), Vec::new(), Vec::new());
        let joined = format!(r#"{{"status":200,"token":"t","messages":[{:?}]}}"#, message::JOINED);
        for (body, request) in [
            (
                r#"{"status":410,"token":"t","messages":[]}"#,
                "POST /socket/longpoll?vsn=2.0.0&token=t",
            ),
            (r#"{"status":200}"#, "GET /socket/longpoll?vsn=2.0.0&token=t"),
            (&joined, "GET /socket/longpoll?vsn=2.0.0&token=t"),
            (
                r#"{"status":204,"token":"u","messages":[]}"#,
                "GET /socket/longpoll?vsn=2.0.0&token=u",
            ),
        ] {
            out.clear();
            poll.receive(&response(body), &mut out, &mut events).unwrap();
            assert!(out.starts_with(request.as_bytes()), "{}", String::from_utf8_lossy(&out));
        }
        assert_eq!(events, [Event::Joined]);
    }

    #[test]
    fn a_session_that_is_gone_fails_the_run() {
        let mut poll = LongPoll { stage: Stage::Polling, token: "t".into() };
        let gone = response(r#"{"status":410}"#);
        assert!(poll.receive(&gone, &mut Vec::new(), &mut Vec::new()).is_err());
    }
}
