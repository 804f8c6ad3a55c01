//! Visitors: the topic `site`, with the number of people at the whole server; and the status page.

mod status;

use std::sync::Arc;
use std::time::{Duration, Instant as SystemInstant};

use axum::Router;
use parking_lot::Mutex;
use serde_json::json;
use watchfire::feature::{Part, Registry};
use watchfire::internal::{ClientSender, Cluster, Metrics};
use watchfire::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Reply, Socket};
use watchfire_types::Instant;

use crate::page::ReplicatedPages;

/// The topic with the number of visitors.
const TOPIC: &str = "site";
/// The shortest time between two broadcasts of the number.
const BROADCAST_PERIOD: Duration = Duration::from_secs(1);

/// The number of visitors, as a feature of the server.
pub(crate) struct VisitorFeature {
    pub metrics: Arc<Metrics>,
    pub cluster: Arc<Cluster>,
    pub sender: Arc<dyn ClientSender>,
    pub state: Mutex<VisitorState>,
    /// Whether `/status` is served.
    pub has_status_page: bool,
    pub pages: Arc<ReplicatedPages>,
    pub started_at: SystemInstant,
}

/// The last broadcast, and the joins.
#[derive(Default)]
pub(crate) struct VisitorState {
    /// How many clients joined the topic. Each received the number in the reply to its join.
    joins: u64,
    sent: Option<Sent>,
}

#[derive(Clone, Copy)]
struct Sent {
    visitors: u64,
    joins: u64,
    at: Instant,
}

impl VisitorFeature {
    fn visitors(&self) -> u64 {
        self.metrics.people() + self.cluster.people_elsewhere()
    }
}

impl Part for VisitorFeature {
    fn routes(self: Arc<Self>) -> Router {
        if self.has_status_page { status::routes(self) } else { Router::new() }
    }

    fn register_channels(self: Arc<Self>, registry: &mut Registry) {
        registry.add(TOPIC, VisitorChannel(self)).expect("the pattern is valid");
    }

    fn reserves(&self, topic: &str) -> bool {
        topic == TOPIC
    }

    /// Broadcasts the number at most once per second, when it changed or a client joined. The new
    /// client may have received a number that changed back since.
    fn handle_tick(&self, now: Instant) {
        let visitors = self.visitors();
        let mut state = self.state.lock();
        let joins = state.joins;
        let (last, is_due) = match state.sent {
            Some(sent) => ((sent.visitors, sent.joins), now >= sent.at + BROADCAST_PERIOD),
            None => ((0, 0), true),
        };
        if (visitors, joins) != last && is_due {
            state.sent = Some(Sent { visitors, joins, at: now });
            self.metrics.broadcasts.inc();
            self.sender.broadcast_here(TOPIC, "visitors", json!({ "visitors": visitors }).into());
        }
    }
}

/// The channel of the topic `site`.
struct VisitorChannel(Arc<VisitorFeature>);

impl Channel for VisitorChannel {
    type State = ();

    fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        self.0.state.lock().joins += 1;
        Ok(Joined::with(()).response(json!({ "visitors": self.0.visitors() })))
    }

    fn handle_in(&self, (): &mut (), _: &mut Socket<'_>, _: &str, _: Payload<'_>) -> HandleIn {
        Ok(Outcome::Reply(Reply::because("unknown event")))
    }
}
