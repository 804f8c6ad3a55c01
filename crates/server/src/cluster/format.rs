//! The format of all messages between the processes of a server.

/// A hash of samples of every message that processes send to each other. Machines announce it, and a
/// machine of another format is not linked. A test computes it from the samples, so a change of any
/// message changes it.
pub(crate) const FORMAT: u64 = 0x2e01_f332_cd9c_8357;

/// Counted up when a message has another meaning, and its bytes are the same.
#[cfg(test)]
const MEANING: u64 = 1;

/// Samples of one type of message.
#[cfg(test)]
pub(crate) struct Samples {
    pub name: &'static str,
    pub encoded: Vec<Vec<u8>>,
}

/// Encodes samples of a message. Of an enum, every variant must be among them: then the next number of
/// a variant must be unknown to the decoder.
#[cfg(test)]
macro_rules! samples {
    (enum $type:ty: $($sample:expr),+ $(,)?) => {{
        let samples = crate::cluster::samples!($type: $($sample),+);
        let variants: std::collections::BTreeSet<u8> =
            samples.encoded.iter().map(|sample| sample[0]).collect();
        assert!(variants.iter().copied().eq(0..variants.len() as u8), "{}", samples.name);
        for filler in [0, 1] {
            let mut unknown = vec![filler; 512];
            unknown[0] = variants.len() as u8;
            assert_eq!(
                postcard::from_bytes::<$type>(&unknown).err(),
                Some(postcard::Error::SerdeDeCustom),
                "a variant of {} has no sample",
                samples.name,
            );
        }
        samples
    }};
    (json $type:ty: $($sample:expr),+ $(,)?) => {
        crate::cluster::Samples {
            name: stringify!($type),
            encoded: vec![$({
                let sample: $type = $sample;
                let json = serde_json::to_vec(&sample).expect("a message has a JSON form");
                let _read: $type = serde_json::from_slice(&json).expect("a message can be read");
                json
            }),+],
        }
    };
    ($type:ty: $($sample:expr),+ $(,)?) => {
        crate::cluster::Samples {
            name: stringify!($type),
            encoded: vec![$({
                let sample: $type = $sample;
                let bytes = postcard::to_stdvec(&sample).expect("messages are plain data");
                let _read: $type = postcard::from_bytes(&bytes).expect("a message can be decoded");
                bytes
            }),+],
        }
    };
}

#[cfg(test)]
pub(crate) use samples;

#[cfg(test)]
mod tests {
    use watchfire_cluster::bus::frame::Frame;
    use watchfire_types::FixedHash;

    use super::*;
    use crate::cluster::message;

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
        all.extend(crate::api::message_samples());
        all.extend(crate::operator::message_samples());
        #[cfg(feature = "pages")]
        {
            all.extend(crate::pages::message_samples());
            all.extend(crate::sprites::message_samples());
        }
        all
    }

    /// With the feature `pages`, because only then every message is there.
    #[cfg(feature = "pages")]
    #[test]
    fn the_format_changes_with_every_message_between_processes() {
        let mut hash = FixedHash::new(MEANING);
        for Samples { name, encoded } in all_samples() {
            hash = hash.text(name);
            for sample in encoded {
                hash = hash.bytes(&sample);
            }
        }
        assert_eq!(
            format!("{:#018x}", hash.finish()),
            format!("{FORMAT:#018x}"),
            "a message between processes has changed: set FORMAT in cluster/format.rs to the first \
             value, so that machines with the old messages are not linked"
        );
    }

    #[cfg(not(feature = "pages"))]
    #[test]
    fn every_message_between_processes_has_samples() {
        assert!(all_samples().iter().all(|samples| !samples.encoded.is_empty()));
        let _ = FixedHash::new(MEANING);
    }
}
