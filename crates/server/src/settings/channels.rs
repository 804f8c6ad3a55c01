use serde::{Deserialize, Serialize};

/// The built-in channels that are open to any client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChannelSettings {
    /// Whether any client may join the topics `rooms:*` and send to everyone there. The chat of the
    /// web client needs it.
    pub open_rooms: bool,
}
