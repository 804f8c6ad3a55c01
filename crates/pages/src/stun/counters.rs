use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub struct StunCounters {
    pub(crate) answers: AtomicU64,
    pub(crate) outside: AtomicU64,
    pub(crate) unreadable: AtomicU64,
    pub(crate) over_rate: AtomicU64,
    pub(crate) unsent: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StunTotals {
    /// Requests answered, including error responses and answers that the system could not send.
    pub answers: u64,
    /// Of these, answers to other machines: not to a loopback address.
    pub outside: u64,
    /// Datagrams that are not Binding requests; they are not answered.
    pub unreadable: u64,
    /// Requests that were not answered because of a rate limit.
    pub over_rate: u64,
    /// Answers that the system could not send.
    pub unsent: u64,
}

impl StunCounters {
    pub fn totals(&self) -> StunTotals {
        StunTotals {
            answers: self.answers.load(Ordering::Relaxed),
            outside: self.outside.load(Ordering::Relaxed),
            unreadable: self.unreadable.load(Ordering::Relaxed),
            over_rate: self.over_rate.load(Ordering::Relaxed),
            unsent: self.unsent.load(Ordering::Relaxed),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
