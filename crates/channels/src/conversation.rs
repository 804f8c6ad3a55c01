//! The actions of a server for a client's messages, by protocol state.

use std::borrow::Cow;

use watchfire_types::TOPIC_BYTES_MAX;

use crate::frame::{Message, Payload, event};
use crate::reference::{JoinRef, NULL, Ref};

/// The longest event, in bytes: its length is one byte in a binary frame.
pub(crate) const EVENT_BYTES_MAX: usize = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationLimits {
    /// Topics that one socket may have joined. Further joins are refused.
    pub channels_max: usize,
}

impl Default for ConversationLimits {
    fn default() -> Self {
        ConversationLimits { channels_max: 100 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Answer with [`crate::encode_heartbeat_reply`].
    Heartbeat,
    /// Join the topic; answer [`Refusal::Unmatched`] if no pattern matches.
    Join,
    /// End the old channel of this topic, join again and reply. Only then send the old channel's
    /// close, with [`crate::encode_close`]; over V1, omit the close.
    Rejoin,
    /// Leave the topic: reply `ok` `{}`, then close. Over V1, omit the close: the client would take
    /// it for the close of its next join of the topic.
    Leave,
    /// Reply `ok` `{}` with the message's own join_ref; the topic is not joined.
    LeaveNotJoined,
    Deliver,
    /// Drop it silently: it belongs to an earlier join of the topic.
    Stale,
    /// Answer with [`crate::encode_refusal`].
    Refuse(Refusal),
}

/// The reason why the protocol itself answers a message with `error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No channel pattern matches the topic of a join, or the topic is not joined.
    Unmatched,
    /// The socket has joined the maximum number of topics.
    TooManyChannels { max: usize },
    /// The channel's join failed with an internal error.
    JoinCrashed,
    /// The topic is longer than [`TOPIC_BYTES_MAX`].
    TopicTooLong { len: usize },
    /// The event is longer than 255 bytes.
    EventTooLong { len: usize },
}

impl Refusal {
    /// The join_ref of the error reply: null when it comes from no channel.
    pub fn join_ref<'m>(&self, message: &'m Message<'_>) -> &'m Ref {
        match self {
            Refusal::TooManyChannels { .. } | Refusal::JoinCrashed => &message.join_ref,
            Refusal::Unmatched | Refusal::TopicTooLong { .. } | Refusal::EventTooLong { .. } => {
                &NULL
            }
        }
    }

    /// The response of the error reply, as JSON text.
    pub fn response(&self) -> Cow<'static, str> {
        match self {
            Refusal::Unmatched => r#"{"reason":"unmatched topic"}"#.into(),
            Refusal::TooManyChannels { .. } => r#"{"reason":"too many channels joined"}"#.into(),
            Refusal::JoinCrashed => r#"{"reason":"join crashed"}"#.into(),
            Refusal::TopicTooLong { len } => {
                format!(r#"{{"reason":"topic too long","bytes":{len},"max":{TOPIC_BYTES_MAX}}}"#)
                    .into()
            }
            Refusal::EventTooLong { len } => {
                format!(r#"{{"reason":"event too long","bytes":{len},"max":{EVENT_BYTES_MAX}}}"#)
                    .into()
            }
        }
    }
}

/// Decides the action for a message.
///
/// `joined` is the client's channel on this topic; `channels_joined` counts all its channels.
///
/// ```
/// use watchfire_channels::{Action, ConversationLimits, JoinRef, Serializer};
///
/// let limits = ConversationLimits::default();
/// let read = |frame| watchfire_channels::decode_text(Serializer::V2, frame).unwrap();
/// let join = read(r#"["3","3","rooms:lobby","phx_join",{}]"#);
/// let joined = JoinRef::of(&join);
///
/// let message = read(r#"["3","4","rooms:lobby","new_msg",{"body":"hi"}]"#);
/// assert_eq!(watchfire_channels::route(&message, Some(&joined), 1, &limits), Action::Deliver);
/// let late = read(r#"["1","2","rooms:lobby","new_msg",{"body":"hi"}]"#);
/// assert_eq!(watchfire_channels::route(&late, Some(&joined), 1, &limits), Action::Stale);
/// ```
pub fn route(
    message: &Message<'_>,
    joined: Option<&JoinRef>,
    channels_joined: usize,
    limits: &ConversationLimits,
) -> Action {
    if message.topic.len() > TOPIC_BYTES_MAX {
        return Action::Refuse(Refusal::TopicTooLong { len: message.topic.len() });
    }
    if message.event.len() > EVENT_BYTES_MAX {
        return Action::Refuse(Refusal::EventTooLong { len: message.event.len() });
    }
    match (&*message.event, joined) {
        (event::HEARTBEAT, _) if message.topic == event::PHOENIX_TOPIC => Action::Heartbeat,
        (event::JOIN, Some(_)) => Action::Rejoin,
        (event::JOIN, None) if message.topic.is_empty() => Action::Refuse(Refusal::Unmatched),
        (event::JOIN, None) if channels_joined >= limits.channels_max => {
            Action::Refuse(Refusal::TooManyChannels { max: limits.channels_max })
        }
        (event::JOIN, None) => Action::Join,
        (_, Some(joined)) if !belongs_to(message, joined) => Action::Stale,
        (event::LEAVE, Some(_)) => Action::Leave,
        (event::LEAVE, None) => Action::LeaveNotJoined,
        (_, Some(_)) => Action::Deliver,
        (_, None) => Action::Refuse(Refusal::Unmatched),
    }
}

fn belongs_to(message: &Message<'_>, joined: &JoinRef) -> bool {
    match message.payload {
        Payload::Json(_) => joined.is_current(&message.join_ref),
        Payload::Binary(_) => joined.is_current_text(&message.join_ref),
    }
}
