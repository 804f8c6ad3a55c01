use thiserror::Error;

/// Limits of a [`Presence`](crate::Presence).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresenceLimits {
    /// Longest key, in bytes. Longer keys are refused.
    pub key_bytes_max: usize,
    /// Longest meta, in bytes of its JSON. Longer metas are refused.
    pub meta_bytes_max: usize,
    /// Keys per owner; they are searched linearly. At the limit, further keys are refused.
    pub keys_per_owner_max: usize,
    /// Leaves that wait for a diff, on all topics together. At the limit, nothing can be tracked or
    /// updated until diffs are polled.
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

/// The reason why a key is not tracked or updated. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TrackError {
    /// The owner already tracks this key on this topic; call `update` instead.
    #[error("this key is tracked already")]
    AlreadyTracked,
    #[error("this key is not tracked")]
    NotTracked,
    /// The key is longer than [`PresenceLimits::key_bytes_max`].
    #[error("a presence key has at most {max} bytes, not {len}")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
        max: usize,
    },
    /// The meta is longer than [`PresenceLimits::meta_bytes_max`].
    #[error("a presence meta has at most {max} bytes, not {len}")]
    MetaTooLong {
        /// Its length in bytes.
        len: usize,
        max: usize,
    },
    #[error("a presence meta must be a JSON object")]
    MetaNotObject,
    /// The owner tracks [`PresenceLimits::keys_per_owner_max`] keys.
    #[error("the owner already tracks {max} keys, the maximum")]
    TooManyKeys { max: usize },
    /// [`PresenceLimits::leaves_waiting_max`] leaves wait for a diff.
    #[error("{max} leaves wait for a diff, the maximum")]
    TooManyLeaves { max: usize },
}
