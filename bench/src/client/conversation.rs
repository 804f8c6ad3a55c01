use anyhow::Result;

use super::event::Event;
use super::long_poll::{LongPoll, PushSender};
use super::websocket::Websocket;

/// One socket's side of the protocol, without the socket.
///
/// The socket pool passes received bytes to it and sends what it writes to `out`.
pub enum Conversation {
    Websocket(Websocket),
    LongPoll(LongPoll),
    PushSender(PushSender),
}

impl Conversation {
    /// Write the first bytes to send on an open connection.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        match self {
            Conversation::Websocket(websocket) => websocket.open(out),
            Conversation::LongPoll(poll) => poll.open(out),
            Conversation::PushSender(sender) => sender.open(out),
        }
    }

    /// Handle received bytes. Returns how many were consumed; the caller passes the rest again with
    /// more bytes.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<usize> {
        let mut consumed = 0;
        loop {
            let bytes = &bytes[consumed..];
            let step = match self {
                Conversation::Websocket(websocket) => websocket.receive(bytes, out, events)?,
                Conversation::LongPoll(poll) => poll.receive(bytes, out, events)?,
                Conversation::PushSender(sender) => sender.receive(bytes)?,
            };
            if step == 0 {
                return Ok(consumed);
            }
            consumed += step;
        }
    }
}
