//! What follows from what the other processes say.

use std::sync::Arc;

use bus::Handler;
use hub::OwnChange;
use tokio::sync::mpsc;
use vocab::{NodeId, PeerId};

use super::census::census_word;
use super::{Question, Word};
use crate::app::Reply;
use crate::broadcast::Broadcast;
use crate::http;
use crate::metrics::Exposition;
use crate::shard::Mail;
use crate::world::World;
use crate::worlds::STANDINGS_TOPIC;
use crate::{page_board, planes};

/// Hears the other processes, on the bus's thread.
pub(crate) struct Hearing {
    pub world: Arc<World>,
    pub exposition: Arc<Exposition>,
    /// Links that are gone, for who can ask for new ones.
    pub lost: mpsc::UnboundedSender<NodeId>,
}

impl Handler for Hearing {
    fn up(&self, node: NodeId) {
        self.world.cluster.note_up(node);
        let cluster = &self.world.cluster;
        cluster.tell_state(node, &census_word(&[(cluster.me(), cluster.fill())]));
    }

    fn down(&self, node: NodeId) {
        tracing::info!(%node, "gone");
        let world = &self.world;
        world.cluster.note_down(node);
        world.presence.node_down(node);
        world.pages.node_down(node);
        world.standings.as_ref().inspect(|standings| standings.node_down(node));
        world.planes.as_ref().inspect(|planes| planes.node_down(node));
        self.lost.send(node).ok();
    }

    fn interested(&self, node: NodeId, topic: &str) {
        let world = &self.world;
        if topic == STANDINGS_TOPIC {
            world.standings.as_ref().inspect(|standings| standings.introduce_to(node));
            return;
        }
        world.presence.introduce_to(&world.cluster, node, topic);
        if let Some(page) = topic.strip_prefix(page_board::TOPIC_PREFIX) {
            world.pages.introduce_to(node, page);
        } else if let (Some(plane), Some(planes)) =
            (topic.strip_prefix(planes::TOPIC_PREFIX), &world.planes)
        {
            planes.introduce_to(node, plane);
        }
    }

    fn forgotten(&self, topic: &str) {
        let world = &self.world;
        world.presence.on(topic).forget_foreign(topic);
        if let Some(page) = topic.strip_prefix(page_board::TOPIC_PREFIX) {
            world.pages.forget(page);
        } else if let (Some(plane), Some(planes)) =
            (topic.strip_prefix(planes::TOPIC_PREFIX), &world.planes)
        {
            planes.forget(plane);
        }
    }

    fn message(&self, from: NodeId, message: &[u8]) {
        match Word::parse(message) {
            Ok(word) => self.hear(from, word),
            // It is of our own build: a bug, but none that has to end anything.
            Err(error) => tracing::error!(%from, %error, "another process is not understood"),
        }
    }

    fn ready(&self, up_to: u64) {
        self.world.cluster.note_ready(up_to);
        for mailbox in self.world.endpoint.mailboxes() {
            // A shard whose mailbox is full looks at its next tick.
            mailbox.send(Mail::Ready).ok();
        }
    }
}

impl Hearing {
    fn hear(&self, from: NodeId, word: Word<'_>) {
        let Hearing { world, .. } = self;
        let endpoint = &world.endpoint;
        match word {
            Word::Broadcast { topic, event, body, except } => {
                let except = except.map(Into::into);
                let broadcast = Broadcast::new(topic, event, body.into(), except);
                endpoint.deliver(&Arc::new(broadcast), None);
            }
            Word::Disconnect { id } => endpoint.disconnect_here(id),
            Word::Push { to, event, body } => {
                endpoint.push_body(to.into(), event, body.into()).ok();
            }
            Word::Reply { to, status, body } => {
                let reply = Reply::with_status(status, body);
                endpoint.reply(to.to_owned(), reply);
            }
            Word::Relay { what, to, data, ack } => {
                let ack = ack.to_owned();
                let data = bytes::Bytes::copy_from_slice(data);
                if endpoint.relay(what, to.into(), data, ack.clone()).is_err() {
                    endpoint.reply(ack, crate::shard::busy());
                }
            }
            Word::Presences { topic, changes } => self.presences(from, topic, &changes),
            Word::Peer { page, peer, at, have, kind } => {
                if self.hears(page_board::TOPIC_PREFIX, page) {
                    world.pages.hear_of(page, PeerId(peer), at.into(), have.into(), kind);
                }
            }
            Word::PeerGone { page, peer } => world.pages.hear_gone(page, PeerId(peer)),
            Word::WasLit { page } => world.pages.was_lit(page),
            Word::Standing { page, light } => {
                world.standings.as_ref().inspect(|known| known.hear_of(from, page, light));
            }
            Word::Seats { plane, changes } => {
                if let Some(planes) = &world.planes
                    && self.hears(planes::TOPIC_PREFIX, plane)
                {
                    planes.hear_of(from, plane, &changes);
                }
            }
            Word::Sprite { plane, to, from, arrival, is_back } => {
                let planes = world.planes.as_ref();
                let is_taken = planes.is_some_and(|planes| {
                    planes.sprite(plane, PeerId(to), PeerId(from), arrival, is_back)
                });
                if !is_taken {
                    world.metrics.refused("sprite_lost");
                }
            }
            Word::Census(said) => world.cluster.hear_census(&said),
            Word::Ask { number, question } => self.answer(from, number, question),
            Word::Answer { number, text } => world.cluster.answered(number, text),
        }
    }

    /// Whether the topic is still one that this process hears of: it may have ceased to be while
    /// the word was under way.
    fn hears(&self, prefix: &str, name: &str) -> bool {
        self.world.cluster.hears(&format!("{prefix}{name}"))
    }

    fn presences(&self, from: NodeId, topic: &str, changes: &[OwnChange]) {
        if !self.world.cluster.hears(topic) {
            return;
        }
        let refused = self.world.presence.hear_of(from, topic, changes);
        if refused > 0 {
            self.world.metrics.refused("presence_of_another_process");
        }
    }

    fn answer(&self, from: NodeId, number: u64, question: Question<'_>) {
        let world = &self.world;
        let of_http = |(status, told): (::http::StatusCode, serde_json::Value)| {
            format!("{}{told}", status.as_u16())
        };
        let text = match question {
            Question::Metrics => self.exposition.render_here(),
            Question::Throw { plane, peer, throw } if world.planes.is_some() => {
                of_http(http::sprites::throw_here(world, plane, PeerId(peer), throw))
            }
            Question::Leave { plane, peer } if world.planes.is_some() => {
                of_http(http::sprites::leave_here(world, plane, PeerId(peer)))
            }
            Question::Throw { .. } | Question::Leave { .. } => return,
        };
        world.cluster.tell(from, Word::Answer { number, text: &text }.to_bytes()).ok();
    }
}
