use std::sync::Arc;

use serde_json::json;

use crate::app::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Socket};
use crate::metrics::Metrics;

/// The topic on which the number of visitors is told.
pub(crate) const SITE_TOPIC: &str = "site";

/// `site`: how many visitors the whole server has.
pub(crate) struct Site {
    pub metrics: Arc<Metrics>,
}

impl Channel for Site {
    type State = ();

    fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        Ok(Joined::with(()).response(json!({ "visitors": self.metrics.clients() })))
    }

    fn handle_in(&self, (): &mut (), _: &mut Socket<'_>, _: &str, _: Payload<'_>) -> HandleIn {
        Ok(Outcome::Reply(Reply::because("unknown event")))
    }
}
