//! A message to a whole topic, encoded once per wire format and shared by every subscriber.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use watchfire_channels::Serializer;
use watchfire_hub::history::Position;

use super::address::ChannelAddress;
use super::encoding::{self, Encoded};
use super::flows::Flows;
use super::payload::Body;

/// The place of a message in the log of its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The position of the message before it.
    pub after: Position,
    pub position: Position,
}

/// A message to every subscriber of a topic.
#[derive(Debug)]
pub struct Broadcast {
    pub topic: Box<str>,
    pub event: Box<str>,
    pub body: Body,
    /// The one subscriber that does not get the message.
    pub except: Option<ChannelAddress>,
    /// `None` on a topic without a history.
    pub placed: Option<Box<Placed>>,
    /// When this process published or received it.
    pub published: Instant,
    /// Counts the message until it was given to each subscriber, and its bytes until they are sent.
    /// `None`: nobody waits for it.
    flows: Option<Arc<Flows>>,
    frames: [OnceLock<Option<Bytes>>; 3],
    messages: [OnceLock<Option<Bytes>>; 2],
}

impl Broadcast {
    pub fn new(topic: &str, event: &str, body: Body, except: Option<ChannelAddress>) -> Self {
        Broadcast {
            topic: topic.into(),
            event: event.into(),
            body,
            except,
            placed: None,
            published: Instant::now(),
            flows: None,
            frames: Default::default(),
            messages: Default::default(),
        }
    }

    /// The message, while the publishers of its topic wait for it.
    pub fn counted(mut self, flows: &Arc<Flows>) -> Arc<Self> {
        flows.depart(&self.topic, self.body.len());
        self.flows = Some(flows.clone());
        Arc::new(self)
    }

    /// A message of a topic with a history.
    pub fn placed(topic: &str, event: &str, body: Body, placed: Placed) -> Self {
        let mut broadcast = Broadcast::new(topic, event, body, None);
        broadcast.placed = Some(Box::new(placed));
        broadcast
    }

    /// The WebSocket frame with its header, or the event of a stream. `None` when this serializer cannot carry the body.
    pub fn frame(&self, serializer: Serializer) -> Option<&Bytes> {
        self.frames[serializer as usize]
            .get_or_init(|| Some(self.shared(self.encode(serializer)?.into_frame())))
            .as_ref()
    }

    /// The message for a long-poll response. `None` when long poll cannot carry the body.
    pub fn message(&self, serializer: Serializer) -> Option<&Bytes> {
        self.messages[serializer as usize]
            .get_or_init(|| Some(self.shared(self.encode(serializer)?.into_longpoll_message()?)))
            .as_ref()
    }

    fn shared(&self, bytes: Bytes) -> Bytes {
        match &self.flows {
            Some(flows) => flows.counted(bytes),
            None => bytes,
        }
    }

    fn encode(&self, serializer: Serializer) -> Option<Encoded> {
        let position = self.placed.as_ref().map(|placed| placed.position);
        encoding::broadcast(serializer, &self.topic, &self.event, self.body.as_payload(), position)
    }
}

impl Drop for Broadcast {
    fn drop(&mut self) {
        if let Some(flows) = &self.flows {
            flows.land(&self.topic, self.body.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broadcast_is_encoded_once_per_wire_format() {
        let body = Body::from(serde_json::json!({"n": 1}));
        let broadcast = Broadcast::new("t", "e", body, None);
        let first = broadcast.frame(Serializer::V2).unwrap().clone();
        let second = broadcast.frame(Serializer::V2).unwrap();
        assert_eq!(first.as_ptr(), second.as_ptr());
        assert_eq!(&first[2..], br#"[null,null,"t","e",{"n":1}]"#);
        assert_eq!(
            broadcast.message(Serializer::V2).unwrap().as_ref(),
            br#""[null,null,\"t\",\"e\",{\"n\":1}]""#
        );
    }

    #[test]
    fn the_event_of_a_stream_has_its_position_as_id() {
        let position = |offset| Position { epoch: 35, offset };
        let placed = Placed { after: position(6), position: position(7) };
        let broadcast = Broadcast::placed("t", "e", Body::EMPTY, placed);
        let event = broadcast.frame(Serializer::Events).unwrap();
        assert_eq!(event.as_ref(), b"event: e\nid: z:7\ndata: {}\n\n");
        let again = broadcast.frame(Serializer::Events).unwrap();
        assert_eq!(event.as_ptr(), again.as_ptr(), "it is encoded once for all streams");
    }

    #[test]
    fn a_position_is_the_ref_and_other_broadcasts_have_none() {
        let position = |offset| Position { epoch: 35, offset };
        let placed = Placed { after: position(6), position: position(7) };
        let body = Body::from(serde_json::json!({}));
        let broadcast = Broadcast::placed("t", "e", body.clone(), placed);
        let frame = |broadcast: &Broadcast, serializer| {
            String::from_utf8(broadcast.frame(serializer).unwrap()[2..].to_vec()).unwrap()
        };
        assert_eq!(frame(&broadcast, Serializer::V2), r#"[null,"z:7","t","e",{}]"#);
        assert!(frame(&broadcast, Serializer::V1).contains(r#""ref":"z:7""#));
        let plain = Broadcast::new("t", "e", body, None);
        assert_eq!(frame(&plain, Serializer::V2), r#"[null,null,"t","e",{}]"#);
    }

    #[test]
    fn neither_v1_nor_a_stream_nor_long_poll_carries_bytes() {
        let broadcast = Broadcast::new("t", "e", Body::Binary(Bytes::from_static(b"\x01")), None);
        assert!(broadcast.frame(Serializer::V2).is_some());
        assert!(broadcast.frame(Serializer::V1).is_none());
        assert!(broadcast.frame(Serializer::Events).is_none());
        assert!(broadcast.message(Serializer::V2).is_none());
    }
}
