use watchfire_bitswap::{BitSet, Wanted, Wants};

/// The wants that a session may send. Other programs look ahead only a limited number of wants.
#[derive(Debug, Default)]
pub(super) struct WantFront {
    pub(super) wants: BitSet,
    /// [`Wants::changes`] at the last update, and the limit.
    updated_for: (u64, usize),
}

impl WantFront {
    /// Selects the next `wants_max` wants, the most urgent first. Returns whether they have
    /// changed.
    pub(super) fn update<P: Copy + Ord>(&mut self, wants: &Wants<P>, wants_max: usize) -> bool {
        let is_changed = self.updated_for != (wants.changes(), wants_max);
        if is_changed {
            self.updated_for = (wants.changes(), wants_max);
            let urgency = wants.iter().map(|(_, wanted)| wanted.urgency).max();
            let is_urgent = |(_, wanted): &(u32, &Wanted<P>)| Some(wanted.urgency) == urgency;
            let (urgent, others) = (wants.iter().filter(is_urgent), wants.iter());
            self.wants = BitSet::default();
            for (at, _) in urgent.take(wants_max).chain(others) {
                if self.wants.len() == wants_max {
                    break;
                }
                self.wants.insert(at);
            }
        }
        is_changed
    }

    /// The wants that are requested from no peer.
    pub(super) fn unrequested<P: Copy + Ord>(&self, wants: &Wants<P>) -> Vec<u32> {
        let is_unrequested = |at: &u32| wants.get(*at).requested_from.is_empty();
        self.wants.iter().filter(is_unrequested).collect()
    }
}
