//! Sprites: windows that throw pictures to each other over their edges.
//!
//! [`ReplicatedGrids`](grids::ReplicatedGrids) is the state. Clients reach it over the channel
//! `sprites:<grid>`, or with plain HTTP requests, whose polls are parked in a shard.

mod channel;
mod grids;
mod messages;
mod metrics;
mod name;
mod neighbours;
mod polling;
mod replication;
mod routes;
mod slot;
mod slot_token;
mod slots;
mod state;
mod throw_message;
mod throws;

use std::sync::Arc;

use axum::Router;
use channel::SpriteChannel;
use grids::{GridLimits, ReplicatedGrids};
#[cfg(test)]
pub(crate) use messages::message_samples;
use metrics::SpriteMetrics;
pub use name::check_grid_name;
use polling::Polling;
use replication::GridReplication;
use watchfire::Settings;
use watchfire::feature::{ClusterPart, MetricWriter, Part, PartLink, Registry};
use watchfire::internal::{Addresses, ClientSender, Metrics, Parking, Seed, TokenKey};
use watchfire_types::Instant;

use crate::settings::{PageLimits, SpriteSettings};

pub(crate) struct SpriteFeature {
    polling: Arc<Polling>,
    replication: Arc<GridReplication>,
}

impl SpriteFeature {
    /// `slot_tokens` and `seed` must be equal in all processes.
    pub fn new(
        settings: &Settings,
        slot_tokens: TokenKey,
        seed: Seed,
        sender: Arc<dyn ClientSender>,
        link: PartLink,
        addresses: Arc<Addresses>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let limits = GridLimits::from(settings);
        let grids = Arc::new(ReplicatedGrids::new(limits, seed, sender, link, addresses));
        let polling = Arc::new(Polling {
            grids: grids.clone(),
            slot_tokens,
            metrics: metrics.clone(),
            counts: Arc::new(SpriteMetrics::default()),
            throw_bytes_max: settings.section::<PageLimits>().throw_bytes_max,
            window: settings.section::<SpriteSettings>().sprites_window,
        });
        let replication = Arc::new(GridReplication { grids, polling: polling.clone(), metrics });
        SpriteFeature { polling, replication }
    }
}

impl Part for SpriteFeature {
    fn register_channels(self: Arc<Self>, registry: &mut Registry) {
        let Polling { grids, slot_tokens, metrics, counts, throw_bytes_max, .. } = &*self.polling;
        let channel = SpriteChannel {
            grids: grids.clone(),
            slot_tokens: slot_tokens.clone(),
            metrics: metrics.clone(),
            counts: counts.clone(),
            throw_bytes_max: *throw_bytes_max,
        };
        registry.add("sprites:*", channel).expect("the pattern is valid");
    }

    fn reserves(&self, topic: &str) -> bool {
        topic.starts_with("sprites:")
    }

    fn checked_routes(self: Arc<Self>) -> Router {
        routes::routes(self.polling.clone())
    }

    fn cluster_parts(self: Arc<Self>) -> Vec<Arc<dyn ClusterPart>> {
        vec![self.replication.clone()]
    }

    fn parking(&self) -> Option<Arc<dyn Parking>> {
        Some(self.polling.clone())
    }

    fn handle_tick(&self, now: Instant) {
        self.polling.grids.handle_tick(now);
    }

    fn write_metrics(&self, writer: &mut MetricWriter) {
        let (grids, slots) = self.polling.grids.counted();
        writer.gauge("sprites_grids", "Grids with a slot taken or reserved", grids as u64);
        writer.gauge("sprites_peers", "Slots on grids, taken or reserved", slots as u64);
        let throws = self.polling.counts.throws.get();
        writer.counter("sprites_throws", "Throws that were accepted", throws);
    }
}
