use std::sync::Arc;

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
    Counts {
        /// The page.
        page: Arc<str>,
        /// Its counts now.
        counts: Counts,
    },
    /// A peer holds the whole page, and none did before. Sent at once.
    Available {
        /// The page.
        page: Arc<str>,
    },
    /// No peer holds the whole page now. Sent at once. Peers may still have all blocks together.
    Unavailable {
        /// The page.
        page: Arc<str>,
    },
}
