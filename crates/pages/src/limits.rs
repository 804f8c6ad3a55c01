use std::time::Duration;

/// What a page may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageLimits {
    /// Peers of one page, those of other processes among them. Over it: the join is refused.
    pub peers_per_page_max: usize,
    /// Pages that are open at once. Over it: a join that would open another is refused.
    pub pages_max: usize,
    /// Bytes a second that one page's peers may relay together; 0 relays nothing. Over it: the
    /// frame is refused with the time to wait.
    pub relay_bytes_per_second_page: u64,
    /// Bytes a second that one peer may send by relay; 0 relays nothing. Over it: the frame is
    /// refused with the time to wait.
    pub relay_bytes_per_second_peer: u64,
    /// How much unused budget is saved up. A frame larger than what this saves passes when the
    /// budget is full, and is paid off afterwards.
    pub relay_burst: Duration,
    /// Signals a second that one peer may send to others; 0 passes none on. Over it: the signal is
    /// refused with the time to wait.
    pub signals_per_second_peer: u32,
    /// How much unused allowance of signals is saved up.
    pub signal_burst: Duration,
    /// The least time between two counts of one page.
    pub counts_period: Duration,
}

impl Default for PageLimits {
    fn default() -> Self {
        PageLimits {
            peers_per_page_max: 10_000,
            pages_max: 100_000,
            relay_bytes_per_second_page: 128 << 20,
            relay_bytes_per_second_peer: 32 << 20,
            relay_burst: Duration::from_millis(250),
            signals_per_second_peer: 20,
            signal_burst: Duration::from_secs(5),
            counts_period: Duration::from_secs(1),
        }
    }
}
