use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use watchfire_content::Cid;
use watchfire_types::Instant;

use crate::{Limits, SessionId};

/// Decides when each session searches for providers.
///
/// A session searches when no peer is known to have a block that it wants. The interval grows until
/// a block arrives.
#[derive(Debug)]
pub(crate) struct ProviderSearch<P> {
    sessions: BTreeMap<SessionId, Search>,
    next: u64,
    /// Providers that were found and are not connected yet.
    found_providers: BTreeSet<P>,
}

#[derive(Debug, Default)]
struct Search {
    /// When to search, if a block is missing then. `None` during a search and without wants.
    due_at: Option<Instant>,
    is_under_way: bool,
    rounds: u32,
}

/// Wait before the first search. Connected peers may still announce the block.
const FIRST_SEARCH_AFTER: Duration = Duration::from_secs(1);

/// Providers that are remembered until they connect. Further ones are not remembered.
const FOUND_PROVIDERS_MAX: usize = 256;

impl<P> Default for ProviderSearch<P> {
    fn default() -> Self {
        ProviderSearch { sessions: BTreeMap::new(), next: 0, found_providers: BTreeSet::new() }
    }
}

impl<P: Copy + Ord> ProviderSearch<P> {
    pub(crate) fn start_session(&mut self) -> SessionId {
        let session = SessionId(self.next);
        self.next += 1;
        self.sessions.insert(session, Search::default());
        session
    }

    pub(crate) fn stop_session(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    pub(crate) fn has_session(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Whether a peer that connects was found as a provider.
    pub(crate) fn take_found_provider(&mut self, peer: P) -> bool {
        self.found_providers.remove(&peer)
    }

    pub(crate) fn note_wanted(&mut self, now: Instant, session: SessionId) {
        if let Some(search) = self.sessions.get_mut(&session)
            && !search.is_under_way
        {
            search.due_at.get_or_insert(now + FIRST_SEARCH_AFTER);
        }
    }

    pub(crate) fn note_arrived(&mut self, now: Instant, sessions: &[SessionId]) {
        for session in sessions {
            let Some(search) = self.sessions.get_mut(session) else { continue };
            search.rounds = 0;
            if !search.is_under_way {
                search.due_at = Some(now + FIRST_SEARCH_AFTER);
            }
        }
    }

    /// Every peer sent DONT_HAVE for a block. The first search starts immediately.
    pub(crate) fn note_lacked_by_all(&mut self, now: Instant, sessions: &[SessionId]) {
        for session in sessions {
            let Some(search) = self.sessions.get_mut(session) else { continue };
            if !search.is_under_way && search.rounds == 0 {
                search.due_at = Some(now);
            }
        }
    }

    /// A search ended and found these peers.
    pub(crate) fn handle_result(
        &mut self,
        now: Instant,
        id: SessionId,
        peers: &[P],
        limits: &Limits,
    ) {
        let room = FOUND_PROVIDERS_MAX.saturating_sub(self.found_providers.len());
        self.found_providers.extend(peers.iter().copied().take(room));
        let Some(search) = self.sessions.get_mut(&id) else { return };
        search.is_under_way = false;
        let wait = limits.search_interval.saturating_mul(1 << search.rounds.min(16));
        search.rounds += 1;
        search.due_at = Some(now + wait.min(limits.search_interval_max));
    }

    /// Starts the searches that are due. `lacked` returns a block to search for, if any is missing.
    pub(crate) fn begin_due(
        &mut self,
        now: Instant,
        lacked: impl Fn(SessionId) -> Option<Cid>,
    ) -> Vec<(SessionId, Cid)> {
        let mut begun = Vec::new();
        for (id, search) in &mut self.sessions {
            if search.due_at.is_none_or(|at| at > now) {
                continue;
            }
            search.due_at = Some(now + FIRST_SEARCH_AFTER);
            if let Some(cid) = lacked(*id) {
                search.due_at = None;
                search.is_under_way = true;
                begun.push((*id, cid));
            }
        }
        begun
    }

    /// Stops all timers until a block is wanted.
    pub(crate) fn pause(&mut self) {
        for search in self.sessions.values_mut() {
            search.due_at = None;
        }
    }

    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.sessions.values().filter_map(|search| search.due_at).min()
    }
}

#[cfg(test)]
mod tests {
    use watchfire_content::{Codec, Multihash};

    use super::*;

    #[test]
    fn each_search_without_a_block_waits_longer_than_the_last() {
        let limits = Limits::default();
        let cid = Cid::v1(Codec::RAW, Multihash::Sha2_256([1; 32]));
        let mut searches: ProviderSearch<u8> = ProviderSearch::default();
        let session = searches.start_session();
        searches.note_wanted(Instant::ZERO, session);
        let mut waits = Vec::new();
        for _ in 0..3 {
            let due_at = searches.next_wake().expect("a search is due");
            assert_eq!(searches.begin_due(due_at, |_| Some(cid.clone())).len(), 1);
            assert_eq!(searches.next_wake(), None, "one search at a time");
            searches.handle_result(due_at, session, &[7], &limits);
            waits.extend(searches.next_wake().map(|next| next.since(due_at).as_secs()));
        }
        assert_eq!(waits, [1, 2, 4]);
        assert!(searches.take_found_provider(7) && !searches.take_found_provider(7));
    }
}
