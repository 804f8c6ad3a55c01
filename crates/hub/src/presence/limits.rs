use thiserror::Error;

/// What may be shown by a [`Presence`](crate::Presence).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresenceLimits {
    /// Longest key, in bytes. Over it: refused.
    pub key_bytes_max: usize,
    /// Longest meta, in bytes of its JSON. Over it: refused.
    pub meta_bytes_max: usize,
    /// Keys that one owner may track: they are a list, and walked. Over it: refused.
    pub keys_per_owner_max: usize,
    /// Leaves that wait to be told, on all topics together. Over it: nothing more is tracked or
    /// updated until the next diffs are taken.
    pub leaves_waiting_max: usize,
}

impl Default for PresenceLimits {
    fn default() -> Self {
        PresenceLimits {
            key_bytes_max: 255,
            meta_bytes_max: 4_096,
            keys_per_owner_max: 256,
            leaves_waiting_max: 1 << 20,
        }
    }
}

/// Why something is not tracked or updated. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TrackError {
    /// The owner tracks this key on this topic already: update it instead.
    #[error("this key is tracked already")]
    AlreadyTracked,
    /// The owner does not track this key on this topic.
    #[error("this key is not tracked")]
    NotTracked,
    /// The key is longer than [`PresenceLimits::key_bytes_max`].
    #[error("a presence's key has at most {max} bytes, this one {len}")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The meta is longer than [`PresenceLimits::meta_bytes_max`].
    #[error("a presence's meta has at most {max} bytes, this one {len}")]
    MetaTooLong {
        /// Its length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The meta is not the text of a JSON object.
    #[error("a presence's meta must be a JSON object")]
    MetaNotObject,
    /// The owner tracks [`PresenceLimits::keys_per_owner_max`] keys.
    #[error("{max} keys are tracked already")]
    TooManyKeys {
        /// The limit.
        max: usize,
    },
    /// [`PresenceLimits::leaves_waiting_max`] leaves wait to be told.
    #[error("{max} leaves wait to be told")]
    TooManyChanges {
        /// The limit.
        max: usize,
    },
}
