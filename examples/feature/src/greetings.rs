//! Greetings: a feature with a channel, a route, a metric, and messages to the other processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use axum::{Router, routing::get};
use serde::{Deserialize, Serialize};
use watchfire::feature::{
    ClusterPart, Feature, FeatureError, Foundation, MetricWriter, NodeId, Part, PartLink, PartName,
    Registry, SectionType, section,
};
use watchfire::{Channel, HandleIn, Joined, Outcome, Payload, Refusal, Socket};

section! {
    "greetings";
    /// The page about greetings.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct GreetingSettings {
        /// The text after the number of greetings.
        text: String = "greetings".into();
    }
}

/// Counts the greetings of all processes. Clients greet by joining the topic `greetings`.
pub struct Greetings;

impl Feature for Greetings {
    fn name(&self) -> &'static str {
        "greetings"
    }

    fn sections(&self) -> Vec<SectionType> {
        vec![SectionType::of::<GreetingSettings>()]
    }

    fn build(&self, foundation: &Foundation<'_>) -> Result<Vec<Arc<dyn Part>>, FeatureError> {
        let link = foundation.link(PartName::new("greetings", 1));
        let GreetingSettings { text } = foundation.settings.section();
        let (here, elsewhere) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(vec![Arc::new(Counted { link, text, here, elsewhere })])
    }
}

struct Counted {
    link: PartLink,
    text: String,
    here: AtomicU64,
    elsewhere: AtomicU64,
}

impl Part for Counted {
    fn register_channels(self: Arc<Self>, registry: &mut Registry) {
        registry.add("greetings", Greeting(self)).expect("the pattern is valid");
    }

    fn routes(self: Arc<Self>) -> Router {
        let show = async move || {
            let count = self.here.load(Relaxed) + self.elsewhere.load(Relaxed);
            format!("{count} {}", self.text)
        };
        Router::new().route("/greetings", get(show))
    }

    fn write_metrics(&self, writer: &mut MetricWriter) {
        writer.counter("greetings", "Greetings of this process's clients", self.here.load(Relaxed));
    }

    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        vec![self]
    }
}

impl ClusterPart for Counted {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, _: NodeId, message: &[u8]) -> Result<(), postcard::Error> {
        self.elsewhere.fetch_add(postcard::from_bytes(message)?, Relaxed);
        Ok(())
    }
}

struct Greeting(Arc<Counted>);

impl Channel for Greeting {
    type State = ();

    fn join(&self, _: &mut Socket<'_>, _: Payload<'_>) -> Result<Joined<()>, Refusal> {
        self.0.here.fetch_add(1, Relaxed);
        self.0.link.send_all(|| 1_u64);
        Ok(Joined::with(()))
    }

    fn handle_in(&self, _: &mut (), _: &mut Socket<'_>, _: &str, _: Payload<'_>) -> HandleIn {
        Ok(Outcome::NoReply)
    }
}
