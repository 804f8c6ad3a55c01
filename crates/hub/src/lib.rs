//! Topics, subscribers, presence and fan-out of one shard.
//!
//! [`Hub`] stores which client is subscribed to which topic, in few bytes. It delivers each
//! broadcast to every subscriber once, a slice at a time. [`Presence`] stores which keys are present
//! on which topic, and returns changes in the JSON of Phoenix's clients. The nodes of a server
//! replicate each other's presences. [`history`] keeps the recent messages of topics, and
//! replicates them.
//!
//! This crate has no sockets, frames or clock. A client is a number, a delivery is what the driver
//! shares between subscribers, and the driver decides when to run a slice or to poll a diff.
//!
//! ```
//! use watchfire_hub::{Hub, HubLimits, Subscriptions};
//!
//! let mut hub = Hub::new(7, HubLimits::default());
//! let (mut alice, mut bob) = (Subscriptions::default(), Subscriptions::default());
//! hub.subscribe(1, &mut alice, "rooms:lobby");
//! let bobs = hub.subscribe(2, &mut bob, "rooms:lobby");
//!
//! assert_eq!(hub.broadcast("rooms:lobby", "hello"), Ok(true));
//! hub.unsubscribe(&mut bob, bobs);
//! let mut delivered = Vec::new();
//! while hub.deliver(1_000, |_, client, delivery| delivered.push((client, *delivery)), |_, _| {}) {}
//! assert_eq!(delivered, [(1, "hello")]);
//! ```

mod fan_out;
pub mod history;
mod hub;
mod presence;
mod subscription;
mod tables;
mod topic;

pub use hub::{Hub, HubLimits, QueueFull};
pub use presence::{
    Diff, Exported, ImportError, OwnChange, Presence, PresenceLimits, PresenceOwner, Reference,
    TrackError,
};
pub use subscription::{SubscriptionId, SubscriptionIds, Subscriptions};
