//! The messages between the keeper of histories, the workers, and a program that is replaced.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchfire_cluster::bus::NODES_MAX;
use watchfire_hub::history::{Bounds, Position};
use watchfire_types::NodeId;

/// The node of the keeper on the bus of histories. The workers have their slots.
pub(super) const KEEPER: NodeId = NodeId(NODES_MAX - 1);
/// The node of the program that this one replaces.
pub(super) const PREDECESSOR: NodeId = NodeId(NODES_MAX - 2);
/// A hash of samples of all messages of the keeper. A program with another one begins its histories again.
pub(super) const FORMAT: u64 = 0x6f7b_6dcb_9ac3_97e7;

/// A message to the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToKeeper<'a> {
    Publish {
        /// Chosen by the sender, repeated in the response.
        number: u64,
        topic: &'a str,
        bounds: Bounds,
        event: &'a str,
        payload: &'a str,
    },
    Read {
        number: u64,
        topic: &'a str,
        /// Only messages after this offset.
        after: u64,
    },
}

/// A message of the keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromKeeper<'a> {
    /// A message was written; `before` is the offset before it, or 0 if the topic had no log.
    Stored {
        topic: &'a str,
        bounds: Bounds,
        before: u64,
        offset: u64,
        event: &'a str,
        payload: &'a str,
    },
    /// The message of the receiver with this number is written; without a position it is not.
    Published { number: u64, position: Option<Position> },
    /// The answer to a [`ToKeeper::Read`]: at most the bytes of a rule.
    Topic {
        number: u64,
        topic: &'a str,
        epoch: u64,
        #[serde(borrow)]
        messages: Vec<KeptMessage<'a>>,
        complete_from: u64,
        last: u64,
    },
    /// The sizes of all logs: logs, messages, bytes and dropped logs.
    Totals(usize, usize, usize, u64),
}

/// A message of a log: its offset, its age, its event and its payload.
pub(super) type KeptMessage<'a> = (u64, Duration, &'a str, &'a str);

pub(super) fn encode(message: &impl Serialize) -> bytes::Bytes {
    postcard::to_stdvec(message).expect("a message can be encoded").into()
}

#[cfg(test)]
mod tests {
    use watchfire_hub::history::{Message, TopicImage};

    use super::*;
    use crate::cluster::{format_of, samples};

    const BOUNDS: Bounds = Bounds { messages: 9, age: Duration::from_secs(60), bytes: 900 };

    #[test]
    fn the_format_changes_with_every_message_of_the_keeper() {
        let message = || Message { event: "e".into(), payload: "{}".into() };
        let position = Some(Position { epoch: 7, offset: 8 });
        let (topic, event, payload, bounds) = ("t", "e", "{}", BOUNDS);
        let messages = vec![(2, Duration::from_secs(3), "e", "{}")];
        let all = [
            samples!(enum ToKeeper<'_>:
                ToKeeper::Publish { number: 1, topic, bounds, event, payload },
                ToKeeper::Read { number: 1, topic, after: 2 },
            ),
            samples!(enum FromKeeper<'_>:
                FromKeeper::Stored { topic, bounds, before: 1, offset: 2, event, payload },
                FromKeeper::Published { number: 1, position },
                FromKeeper::Topic { number: 1, topic, epoch: 2, messages, complete_from: 3, last: 4 },
                FromKeeper::Totals(1, 2, 3, 4),
            ),
            samples!(TopicImage: TopicImage {
                topic: topic.into(),
                bounds,
                last: 4,
                complete_from: 3,
                messages: vec![(4, Duration::from_secs(3), message())],
            }),
        ];
        assert_eq!(
            format!("{:#018x}", format_of(1, &all)),
            format!("{FORMAT:#018x}"),
            "a message of the keeper has changed: set FORMAT to the first value, so that a program with the old \
             messages begins its histories again"
        );
    }
}
