//! Samples of the messages between processes, from which tests compute the format of these messages.

use watchfire_types::FixedHash;

/// Samples of one type of message, from which its format is computed.
pub struct Samples {
    /// The type.
    pub name: &'static str,
    /// The encoded samples.
    pub encoded: Vec<Vec<u8>>,
}

/// Encodes samples of a message. Of an enum, every variant must be among them: then the next number of
/// a variant must be unknown to the decoder.
#[doc(hidden)]
#[macro_export]
macro_rules! message_samples {
    (enum $type:ty: $($sample:expr),+ $(,)?) => {{
        let samples = $crate::message_samples!($type: $($sample),+);
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
        $crate::Samples {
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
        $crate::Samples {
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

/// The format of messages: a hash of samples of each. `meaning` is counted up when a message has
/// another meaning, and its bytes are the same.
pub fn format_of(meaning: u64, samples: &[Samples]) -> u64 {
    let mut hash = FixedHash::new(meaning);
    for Samples { name, encoded } in samples {
        hash = hash.text(name);
        for sample in encoded {
            hash = hash.bytes(sample);
        }
    }
    hash.finish()
}
