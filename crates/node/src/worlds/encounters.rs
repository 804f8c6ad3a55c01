use std::sync::{Arc, Mutex};

use p2p::HostStats;

use crate::presence::lock;

/// What the host that meets other worlds last told of itself, for whoever reads metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encounters(Arc<Mutex<HostStats>>);

impl Encounters {
    pub fn tell(&self, stats: HostStats) {
        *lock(&self.0) = stats;
    }

    pub fn last_told(&self) -> HostStats {
        lock(&self.0).clone()
    }
}
