//! The audience of a broadcast: all users on its topic, or all connected users.

use super::Session;
use super::program::{Effect, Message, Op, Send, Serializer};
use super::text::Text;

/// Most topics with broadcasts; a user stores one bit for each.
const AUDIENCES_MAX: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Audiences {
    pub(crate) count: usize,
    /// The audience of all connected users.
    pub(crate) everyone: Option<u8>,
}

impl Audiences {
    /// Finds all audiences, and sets the effect of each message on them.
    pub(super) fn find(sessions: &mut [Session]) -> Result<Audiences, String> {
        let mut topics: Vec<Option<Text>> = Vec::new();
        for send in sends(sessions).filter(|send| send.is_broadcast) {
            let topic = topic(send).cloned();
            if !topics.contains(&topic) {
                topics.push(topic);
            }
        }
        if topics.len() > AUDIENCES_MAX {
            return Err(format!(
                "too many topics with broadcasts: at most {AUDIENCES_MAX} are allowed"
            ));
        }
        for send in sends(sessions) {
            let index = topics.iter().position(|known| known.as_ref() == topic(send));
            let Some(index) = index.map(|index| index as u8) else { continue };
            send.effect = match &send.message {
                _ if send.is_broadcast => Effect::Addresses(index),
                Message::Push { is_join: true, .. } => Effect::Joins(index),
                Message::Push { event, .. } if *event == Text::literal("phx_leave") => {
                    Effect::Leaves(index)
                }
                Message::Push { .. } | Message::Raw { .. } => Effect::Nothing,
            };
        }
        for op in sessions.iter_mut().flat_map(|session| &mut session.ops) {
            if let Op::Connect(connect) = op
                && connect.serializer == Serializer::Events
            {
                let path = connect.path.as_literal().unwrap_or_default();
                let is_read = |topic: &Option<Text>| {
                    let topic = topic.as_ref().and_then(Text::as_literal);
                    let named =
                        path.split(['?', '&']).filter_map(|part| part.strip_prefix("topic="));
                    named.map(Some).any(|named| named == topic)
                };
                connect.audience = topics.iter().position(is_read).map(|index| index as u8);
            }
        }
        let everyone = topics.iter().position(Option::is_none).map(|index| index as u8);
        Ok(Audiences { count: topics.len(), everyone })
    }
}

fn sends(sessions: &mut [Session]) -> impl Iterator<Item = &mut Send> {
    sessions.iter_mut().flat_map(|session| &mut session.ops).filter_map(|op| match op {
        Op::Send(send) => Some(&mut **send),
        _ => None,
    })
}

fn topic(send: &Send) -> Option<&Text> {
    match &send.message {
        Message::Push { topic, .. } => Some(topic),
        Message::Raw { .. } => None,
    }
}
