use watchfire_bitswap::{BitSet, Wanted, Wants};

/// The wants that a session has sent so far. Other programs look ahead only a limited number of wants.
#[derive(Debug, Default)]
pub(super) struct WantFront {
    pub(super) wants: BitSet,
    /// [`Wants::changes`] at the last update, and the limit.
    updated_for: (u64, usize),
}

impl WantFront {
    /// Takes the next so many wants, the most urgent first. Returns whether they have changed.
    pub(super) fn update<P: Copy + Ord>(&mut self, wants: &Wants<P>, wants_max: usize) -> bool {
        let is_changed = self.updated_for != (wants.changes(), wants_max);
        if is_changed {
            self.updated_for = (wants.changes(), wants_max);
            let urgency = wants.iter().map(|(_, wanted)| wanted.urgency).max();
            let is_urgent = |(_, wanted): &(u32, &Wanted<P>)| Some(wanted.urgency) == urgency;
            let (first, then) = (wants.iter().filter(is_urgent), wants.iter());
            self.wants = BitSet::default();
            for (at, _) in first.take(wants_max).chain(then) {
                if self.wants.len() == wants_max {
                    break;
                }
                self.wants.insert(at);
            }
        }
        is_changed
    }

    /// Those that no peer is asked for.
    pub(super) fn open<P: Copy + Ord>(&self, wants: &Wants<P>) -> Vec<u32> {
        let is_open = |at: &u32| wants.get(*at).requested_from.is_empty();
        self.wants.iter().filter(is_open).collect()
    }
}
