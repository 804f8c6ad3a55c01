use crate::slab::{NONE, Record, Slab};

/// One client's subscription to one topic: a slot of the [`Hub`](crate::Hub).
///
/// It is valid until it is unsubscribed. Slots are reused, so whoever keeps an id for longer keeps
/// a serial beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub(crate) u32);

impl SubscriptionId {
    /// The slot: an index for what the driver keeps beside the hub.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The id of a slot that [`SubscriptionId::index`] told.
    ///
    /// # Panics
    ///
    /// When no slot can have this index.
    pub const fn from_index(index: usize) -> Self {
        assert!(index < NONE as usize, "no subscription has this index");
        SubscriptionId(index as u32)
    }
}

/// The head of one client's list of subscriptions, kept by the driver beside the client.
///
/// It does not unsubscribe when dropped: walk [`Hub::subscriptions`](crate::Hub::subscriptions)
/// first.
#[derive(Debug, PartialEq, Eq)]
pub struct Subscriptions {
    pub(crate) first: u32,
    pub(crate) len: u32,
}

const _: () = assert!(size_of::<Subscriptions>() == 8, "kept once per client");

impl Subscriptions {
    /// How many topics the client is subscribed to.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the client is subscribed to nothing.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for Subscriptions {
    fn default() -> Self {
        Subscriptions { first: NONE, len: 0 }
    }
}

/// One client's subscriptions: see [`Hub::subscriptions`](crate::Hub::subscriptions).
///
/// A type of its own, so that a loop that ends each first one may say so in its condition.
#[derive(Clone)]
pub struct SubscriptionIds<'a> {
    pub(crate) subscriptions: &'a Slab<Subscription>,
    pub(crate) next: u32,
}

impl Iterator for SubscriptionIds<'_> {
    type Item = SubscriptionId;

    fn next(&mut self) -> Option<SubscriptionId> {
        let id = (self.next != NONE).then_some(SubscriptionId(self.next))?;
        self.next = self.subscriptions[id.0].next;
        Some(id)
    }
}

/// What the hub keeps of a subscription.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub client: u32,
    pub topic: u32,
    /// Its place among the topic's members.
    pub position: u32,
    /// The same client's next subscription; in a vacant slot, the next vacant one.
    pub next: u32,
}

const _: () = assert!(size_of::<Subscription>() == 16, "kept once per subscription");

impl Default for Subscription {
    fn default() -> Self {
        Subscription { client: NONE, topic: NONE, position: NONE, next: NONE }
    }
}

impl Record for Subscription {
    fn next_vacant(&mut self) -> &mut u32 {
        &mut self.next
    }
}
