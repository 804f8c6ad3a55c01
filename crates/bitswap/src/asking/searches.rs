use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use content::Cid;
use vocab::Instant;

use crate::{Limits, SessionId};

/// When each session looks for providers: when it has missed something for a while, and ever less
/// often while nothing arrives.
#[derive(Debug)]
pub(crate) struct Searches<P> {
    sessions: BTreeMap<SessionId, Search>,
    next: u64,
    /// Providers that were named and were not asked yet.
    promised: BTreeSet<P>,
}

#[derive(Debug, Default)]
struct Search {
    /// When to look, if something is missed then; `None` while a search is under way or nothing is wanted.
    due_at: Option<Instant>,
    is_under_way: bool,
    rounds: u32,
}

/// Wait before the first search: peers that are connected may still say that they have it.
const FIRST: Duration = Duration::from_secs(1);

/// Providers remembered until they connect; more are not.
const PROMISED_MAX: usize = 256;

impl<P> Default for Searches<P> {
    fn default() -> Self {
        Searches { sessions: BTreeMap::new(), next: 0, promised: BTreeSet::new() }
    }
}

impl<P: Copy + Ord> Searches<P> {
    pub(crate) fn start(&mut self, _now: Instant) -> SessionId {
        let session = SessionId(self.next);
        self.next += 1;
        self.sessions.insert(session, Search::default());
        session
    }

    pub(crate) fn stop(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    pub(crate) fn has(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    pub(crate) fn is_promised(&mut self, peer: P) -> bool {
        self.promised.remove(&peer)
    }

    pub(crate) fn wanted(&mut self, now: Instant, session: SessionId) {
        if let Some(search) = self.sessions.get_mut(&session)
            && !search.is_under_way
        {
            search.due_at.get_or_insert(now + FIRST);
        }
    }

    pub(crate) fn arrived(&mut self, now: Instant, sessions: &[SessionId]) {
        for session in sessions {
            let Some(search) = self.sessions.get_mut(session) else { continue };
            search.rounds = 0;
            if !search.is_under_way {
                search.due_at = Some(now + FIRST);
            }
        }
    }

    /// Every peer said that it has not got something; there is nothing to wait for, the first time.
    pub(crate) fn is_lacked_by_all(&mut self, now: Instant, sessions: &[SessionId]) {
        for session in sessions {
            let Some(search) = self.sessions.get_mut(session) else { continue };
            if !search.is_under_way && search.rounds == 0 {
                search.due_at = Some(now);
            }
        }
    }

    pub(crate) fn ended(&mut self, now: Instant, id: SessionId, peers: &[P], limits: &Limits) {
        let room = PROMISED_MAX.saturating_sub(self.promised.len());
        self.promised.extend(peers.iter().copied().take(room));
        let Some(search) = self.sessions.get_mut(&id) else { return };
        search.is_under_way = false;
        let wait = limits.search_interval.saturating_mul(1 << search.rounds.min(16));
        search.rounds += 1;
        search.due_at = Some(now + wait.min(limits.search_interval_max));
    }

    /// Begins the searches that are due, for what `lacked` says a session misses.
    pub(crate) fn due(
        &mut self,
        now: Instant,
        lacked: impl Fn(SessionId) -> Option<Cid>,
    ) -> Vec<(SessionId, Cid)> {
        let mut begun = Vec::new();
        for (id, search) in &mut self.sessions {
            if search.due_at.is_none_or(|at| at > now) {
                continue;
            }
            search.due_at = Some(now + FIRST);
            if let Some(cid) = lacked(*id) {
                search.due_at = None;
                search.is_under_way = true;
                begun.push((*id, cid));
            }
        }
        begun
    }

    /// A session that wants nothing has nothing to wake up for.
    pub(crate) fn rest(&mut self) {
        for search in self.sessions.values_mut() {
            search.due_at = None;
        }
    }

    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.sessions.values().filter_map(|search| search.due_at).min()
    }
}
