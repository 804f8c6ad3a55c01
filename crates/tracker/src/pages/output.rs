use std::sync::Arc;

/// How many peers a page has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Peers that have the page open, holders and partial ones included.
    pub watching: usize,
    /// Peers that hold all of it.
    pub holders: usize,
    /// Peers that hold some of it.
    pub partial: usize,
    /// How many of these peers are nodes, see [`Pages::with_node_test`](crate::Pages::with_node_test).
    pub nodes: NodeCounts,
}

/// How many of a page's peers are nodes: processes of Watchfire rather than browser tabs.
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
    /// The counts have changed. At most once a
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
    /// No peer holds the whole page any more. Sent at once. The partial copies of the remaining
    /// peers may still make a whole one.
    Unavailable {
        /// The page.
        page: Arc<str>,
    },
}
