use anyhow::{Result, bail, ensure};

use super::event::Event;
use crate::message::{self, TOPIC};

/// Sockets that share a room, when each joins three topics.
const SOCKETS_PER_ROOM: usize = 100;

/// The client side of Phoenix V2 on one socket.
pub struct Phoenix {
    /// For the three topics; `None` joins the lobby alone.
    membership: Option<Membership>,
    /// Messages that must arrive before the socket counts as joined.
    awaited: u8,
}

/// The user and the room of a socket with three topics.
struct Membership {
    user: usize,
    room: usize,
}

/// The messages that the bench counts.
enum Received {
    Joined,
    HeartbeatAnswered,
    Message,
    /// The users in the room.
    Presences(serde_json::Value),
}

impl Phoenix {
    pub fn in_lobby() -> Self {
        Phoenix { membership: None, awaited: 1 }
    }

    /// Joins the lobby, a topic of its own, and a room that a hundred of all `sockets` share.
    /// Presence tracks it in the room. The rooms fill evenly.
    pub fn in_three_topics(user: usize, sockets: usize) -> Self {
        let room = user % sockets.div_ceil(SOCKETS_PER_ROOM);
        // Three replies and the presence state.
        Phoenix { membership: Some(Membership { user, room }), awaited: 4 }
    }

    /// Write the joins.
    pub fn open(&self, out: &mut Vec<u8>) {
        message::put_client_text(message::JOIN, out);
        if let Some(Membership { user, room }) = self.membership {
            message::put_client_text(
                &format!(r#"["4","4","rooms:user-{user}","phx_join",{{}}]"#),
                out,
            );
            let params = format!(r#"{{"user":"user-{user}"}}"#);
            message::put_client_text(
                &format!(r#"["5","5","presence:{room}","phx_join",{params}]"#),
                out,
            );
        }
    }

    /// The event of a frame; `None` for a frame that does not count.
    pub fn receive(&mut self, text: &str) -> Result<Option<Event>> {
        Ok(match parse(text)? {
            Some(Received::Message) => Some(Event::Message),
            Some(Received::HeartbeatAnswered) => Some(Event::HeartbeatAnswered),
            Some(Received::Joined) => self.one_less_awaited(),
            Some(Received::Presences(present)) => {
                let user =
                    self.membership.as_ref().map(|membership| format!("user-{}", membership.user));
                ensure!(
                    user.is_some_and(|user| present.get(user).is_some()),
                    "not tracked by presence: {text}"
                );
                self.one_less_awaited()
            }
            None => None,
        })
    }

    fn one_less_awaited(&mut self) -> Option<Event> {
        self.awaited = self.awaited.saturating_sub(1);
        (self.awaited == 0).then_some(Event::Joined)
    }
}

/// The event of a long-poll message; `None` for a message that does not count.
pub fn event_in(text: &str) -> Result<Option<Event>> {
    Phoenix::in_lobby().receive(text)
}

fn parse(text: &str) -> Result<Option<Received>> {
    if text == *message::BROADCAST {
        return Ok(Some(Received::Message));
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
            ensure!(payload["status"] == "ok", "the server replied with an error: {text}");
            Ok(match reference {
                "1" | "4" | "5" => Some(Received::Joined),
                "2" => Some(Received::HeartbeatAnswered),
                _ => None,
            })
        }
        ("presence_state", _) => Ok(Some(Received::Presences(payload))),
        ("new_msg", _) if topic == TOPIC => {
            bail!("the message has {} bytes: {text}", text.len())
        }
        ("phx_error" | "phx_close", _) => bail!("the channel ended: {text}"),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(reference: &str) -> String {
        message::JOINED.replace(r#""1""#, &format!("{reference:?}"))
    }

    #[test]
    fn a_message_of_another_size_fails_the_run() {
        let error = event_in(r#"[null,null,"rooms:lobby","new_msg",{"body":"w"}]"#).unwrap_err();
        assert!(error.to_string().contains("48 bytes"), "{error}");
    }

    #[test]
    fn three_topics_are_joined_after_all_replies_and_the_own_presence() {
        let mut phoenix = Phoenix::in_three_topics(307, 1000);
        let mut out = Vec::new();
        phoenix.open(&mut out);
        let mut joins = 0;
        while let Some(frame) = message::frame(&out) {
            joins += 1;
            out.drain(..frame.len);
        }
        assert_eq!((joins, out.len()), (3, 0));

        let present = r#"["5",null,"presence:7","presence_state",{"user-307":{"metas":[]}}]"#;
        for text in [&reply("1"), &reply("5"), present] {
            assert_eq!(phoenix.receive(text).unwrap(), None);
        }
        assert_eq!(phoenix.receive(&reply("4")).unwrap(), Some(Event::Joined));
    }

    #[test]
    fn a_socket_that_is_not_tracked_fails_the_run() {
        let mut phoenix = Phoenix::in_three_topics(3, 1000);
        let others = r#"["5",null,"presence:3","presence_state",{"user-13":{"metas":[]}}]"#;
        assert!(phoenix.receive(others).unwrap_err().to_string().contains("not tracked"));
    }
}
