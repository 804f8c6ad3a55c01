use std::sync::Arc;

/// The part of a page that a peer can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Have {
    /// No block yet.
    Nothing,
    Some,
    /// Every block: the peer is a holder.
    All,
}

/// The numbers of a page's peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Peers that have the page open, including holders and partial ones.
    pub watching: usize,
    /// Peers that hold all of it.
    pub holders: usize,
    /// Peers that hold some of it.
    pub partial: usize,
    /// The nodes among these peers, see [`Pages::with_node_test`](crate::Pages::with_node_test).
    pub nodes: NodeCounts,
}

/// The nodes among a page's peers: processes of Watchfire, not browser tabs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Nodes that have the page open.
    pub watching: usize,
    /// Nodes that hold all of it.
    pub holders: usize,
    /// Nodes that hold some of it.
    pub partial: usize,
}

impl Counts {
    /// Whether at least one peer holds the whole page.
    pub const fn is_available(self) -> bool {
        self.holders > 0
    }
}

/// An event for all peers of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The counts have changed. Sent at most once per
    /// [`counts_period`](crate::PageLimits::counts_period) for each page.
    Counts { page: Arc<str>, counts: Counts },
    /// A peer holds the whole page, and none did before. Sent immediately.
    Available { page: Arc<str> },
    /// No peer holds the whole page now. Sent immediately. Peers may still have all blocks together.
    Unavailable { page: Arc<str> },
}
