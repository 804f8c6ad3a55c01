use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use crate::app::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Socket};
use crate::cluster::Cluster;
use crate::metrics::Metrics;

/// The topic on which the number of visitors is told.
pub(crate) const SITE_TOPIC: &str = "site";

/// `site`: how many visitors the whole server has.
pub(crate) struct Site {
    pub metrics: Arc<Metrics>,
    pub cluster: Arc<Cluster>,
    /// How often the number was read on joining: each reader may have read one that nobody else did.
    pub reads: Arc<AtomicU64>,
}

impl Channel for Site {
    type State = ();

    fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let visitors = self.metrics.clients() + self.cluster.clients_elsewhere();
        Ok(Joined::with(()).response(json!({ "visitors": visitors })))
    }

    fn handle_in(&self, (): &mut (), _: &mut Socket<'_>, _: &str, _: Payload<'_>) -> HandleIn {
        Ok(Outcome::Reply(Reply::because("unknown event")))
    }
}
