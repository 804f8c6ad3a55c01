use anyhow::Result;

use super::long_poll::{LongPoll, Speaker};
use super::websocket::Websocket;

/// What a conversation noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The join was accepted; over long poll the next poll has been sent too.
    Joined,
    /// The measured message arrived.
    Message,
    HeartbeatAnswered,
}

/// One socket's side of the protocol, without the socket.
///
/// The driver gives it the bytes that arrived and sends what it puts into `out`.
pub enum Conversation {
    Websocket(Websocket),
    LongPoll(LongPoll),
    Speaker(Speaker),
}

impl Conversation {
    /// What to say once connected.
    pub fn open(&mut self, out: &mut Vec<u8>) {
        match self {
            Conversation::Websocket(websocket) => websocket.open(out),
            Conversation::LongPoll(poll) => poll.open(out),
            Conversation::Speaker(speaker) => speaker.open(out),
        }
    }

    /// Take in bytes; returns how many were understood, the rest is to come again with more.
    pub fn take_in(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<usize> {
        let mut understood = 0;
        loop {
            let bytes = &bytes[understood..];
            let step = match self {
                Conversation::Websocket(websocket) => websocket.take_in(bytes, out, events)?,
                Conversation::LongPoll(poll) => poll.take_in(bytes, out, events)?,
                Conversation::Speaker(speaker) => speaker.take_in(bytes)?,
            };
            if step == 0 {
                return Ok(understood);
            }
            understood += step;
        }
    }
}
