use watchfire_types::Slab;

use crate::tables::NONE;

/// One client's subscription to one topic: a slot of the [`Hub`](crate::Hub).
///
/// It is valid until the subscription ends. Slots are reused: keep a serial number with a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub(crate) u32);

impl SubscriptionId {
    /// The slot's index, for arrays of the driver.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The id for an index from [`SubscriptionId::index`].
    ///
    /// # Panics
    ///
    /// When the index is out of range.
    pub const fn from_index(index: usize) -> Self {
        assert!(index < NONE as usize, "no subscription has this index");
        SubscriptionId(index as u32)
    }
}

/// The head of one client's list of subscriptions, kept by the driver beside the client.
///
/// Dropping it ends no subscription: walk [`Hub::subscriptions`](crate::Hub::subscriptions) first.
#[derive(Debug, PartialEq, Eq)]
pub struct Subscriptions {
    pub(crate) first: u32,
    pub(crate) len: u32,
}

const _: () = assert!(size_of::<Subscriptions>() == 8, "stored once per client");

impl Subscriptions {
    /// The number of the client's subscriptions.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the client has no subscriptions.
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
/// A named type, so that a loop which ends each first subscription can borrow it in its condition.
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

#[derive(Debug)]
pub(crate) struct Subscription {
    pub client: u32,
    pub topic: u32,
    /// The position in the topic's members.
    pub position: u32,
    /// The same client's next subscription.
    pub next: u32,
}

const _: () = assert!(size_of::<Subscription>() == 16, "stored once per subscription");

impl Default for Subscription {
    fn default() -> Self {
        Subscription { client: NONE, topic: NONE, position: NONE, next: NONE }
    }
}
