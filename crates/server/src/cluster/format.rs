//! The format of all messages between the processes of a server.

/// A hash of samples of every message that processes send to each other. Machines announce it, and a
/// machine of another format is not linked. A test computes it from the samples, so a change of any
/// message changes it.
#[cfg(any(feature = "cluster", test))]
pub(crate) const FORMAT: u64 = 0x7049_c567_caba_4869;

/// Counted up when a message has another meaning, and its bytes are the same.
#[cfg(test)]
const MEANING: u64 = 1;

#[cfg(test)]
mod tests {
    use watchfire_cluster::bus::frame::Frame;

    use super::*;
    use crate::cluster::{Samples, format_of, message};

    fn frames() -> Samples {
        let encode = |frame: Frame<'_>| {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            bytes
        };
        let frames = [
            Frame::Subscribe { seq: 1, topic: "t" },
            Frame::Unsubscribe { topic: "t" },
            Frame::Ack { seq: 1 },
            Frame::Message(b"m"),
        ];
        for frame in &frames {
            // A new kind of frame needs a sample above.
            match frame {
                Frame::Subscribe { .. } | Frame::Unsubscribe { .. } => {}
                Frame::Ack { .. } | Frame::Message(_) => {}
            }
        }
        Samples { name: "Frame", encoded: frames.map(encode).into() }
    }

    fn all_samples() -> Vec<Samples> {
        let mut all = vec![frames()];
        all.extend(message::samples());
        all.extend(crate::channel_api::message_samples());
        all.extend(crate::history::message_samples());
        all.extend(crate::presence::message_samples());
        all.extend(crate::addresses::message_samples());
        all
    }

    #[test]
    fn the_format_changes_with_every_message_between_processes() {
        assert_eq!(
            format!("{:#018x}", format_of(MEANING, &all_samples())),
            format!("{FORMAT:#018x}"),
            "a message between processes has changed: set FORMAT in cluster/format.rs to the first \
             value, so that machines with the old messages are not linked"
        );
    }
}
