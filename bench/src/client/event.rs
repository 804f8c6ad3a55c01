/// An event on a socket that the benchmark counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The join was accepted. Over long poll the next poll was also sent.
    Joined,
    /// The measured message arrived.
    Message,
    HeartbeatAnswered,
}
