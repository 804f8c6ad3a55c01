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
    /// How many of all these are nodes, see [`Pages::counting_nodes`](crate::Pages::counting_nodes).
    pub nodes: NodeCounts,
}

/// How many of a page's peers are nodes, which nobody sits in front of.
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
    /// Whether someone holds the whole page.
    pub const fn is_lit(self) -> bool {
        self.holders > 0
    }
}

/// What a page's peers are to be told.
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
    /// Someone holds the whole page, for the first time since it was opened or dark. At once.
    Lit {
        /// The page.
        page: Arc<str>,
    },
    /// Nobody holds the whole page any more. At once. The partial copies of those who stay may
    /// still make a whole one.
    Dark {
        /// The page.
        page: Arc<str>,
    },
}
