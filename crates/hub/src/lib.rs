//! Topics, subscribers, presence and fan-out of one shard.
//!
//! [`Hub`] knows which client is subscribed to which topic, in few bytes, and carries each
//! broadcast to every subscriber once, a slice at a time. [`Presence`] knows who is present on
//! which topic and tells what changed, in the JSON that Phoenix's clients read; where a server has
//! several nodes, each tells the others of its own, and has what they told among them.
//!
//! It knows no sockets, no frames and no clock: a client is a number, a delivery is whatever the
//! driver shares between subscribers, and a driver decides when a slice or a diff is due.
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
//! let mut told = Vec::new();
//! while hub.deliver(1_000, |_, client, delivery| told.push((client, *delivery))) {}
//! assert_eq!(told, [(1, "hello")]);
//! ```

mod fan_out;
mod hub;
mod limits;
mod presence;
mod room;
mod seeded;
mod slab;
mod subscription;
mod topic;

pub use hub::Hub;
pub use limits::{BacklogFull, HubLimits};
pub use presence::{
    Diff, Exported, ImportError, OwnChange, Presence, PresenceLimits, PresenceOwner, Reference,
    TrackError,
};
pub use subscription::{SubscriptionId, SubscriptionIds, Subscriptions};
