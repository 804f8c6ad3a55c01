//! One event loop's part of the channel server: its clients, their topics, their channels.
//!
//! [`Shard`] is the [`edge::Tenant`]: it carries what sockets say to the pure cores, and what
//! those decide back to sockets. Its parts: `admission` lets clients in, `conversation` handles
//! what they say, `joining` the joins that wait for other processes, `delivery` sends to them,
//! `rounds` tell them who came and left, `longpoll` keeps their sessions, `sprites` the polls of
//! those who play over plain HTTP.

mod admission;
mod client;
mod clients;
mod conversation;
mod delivery;
mod joining;
mod longpoll;
mod mail;
mod rounds;
mod slots;
mod sprites;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use edge::{CloseCause, Parcel, Sockets, Taker, Tenant};
use hub::{Hub, HubLimits};
use vocab::{Instant, ShardId, SocketId};

use crate::app::{AnyStates, ChannelAddress, Effect};
use crate::broadcast::Broadcast;
use crate::builtin::SITE_TOPIC;
use crate::cluster::Fill;
use crate::world::World;

use clients::Clients;
use joining::Backlog;
use rounds::Rounds;
use slots::Slots;

pub(crate) use admission::{Admitted, Asking, Ticket};
pub(crate) use delivery::busy;
pub(crate) use longpoll::{CONTENT_TYPE, token as longpoll_token};
pub(crate) use mail::Mail;

/// Deliveries between two looks at everything else.
const SLICE: usize = 2_000;
/// How often the number of visitors may be told.
const SITE_PERIOD: Duration = Duration::from_secs(1);

/// One event loop's clients, topics and channels.
pub(crate) struct Shard {
    id: ShardId,
    world: Arc<World>,
    hub: Hub<Arc<Broadcast>>,
    clients: Clients,
    /// Beside the hub's subscriptions, by their index.
    slots: Slots,
    /// What the joined clients of each channel keep, by its number.
    states: Vec<AnyStates>,
    /// What the callback at work wants done; empty between callbacks.
    effects: Vec<Effect>,
    site: SiteCount,
    topics_told: usize,
    /// Of the first shard: how far it is in telling who came and who left.
    rounds: Rounds,
    /// The slot of `clients` that the sweep of sessions looked at last.
    swept: usize,
    /// Joins that wait for what other processes know, with the numbers they wait for.
    joining: VecDeque<(u64, ChannelAddress)>,
    /// By client: what it said while its join waits.
    unheard: HashMap<u32, Backlog>,
    sprite_polls: sprites::SpritePolls,
}

/// What the site's topic was told last.
#[derive(Default)]
struct SiteCount {
    visitors: u64,
    /// How often the number had been read until then.
    reads: u64,
    told_at: Option<Instant>,
}

impl Shard {
    pub fn new(id: ShardId, world: Arc<World>, seed: u64) -> Self {
        Shard {
            id,
            states: world.registry.states(),
            world,
            hub: Hub::new(seed, HubLimits::default()),
            clients: Clients::default(),
            slots: Slots::default(),
            effects: Vec::new(),
            site: SiteCount::default(),
            topics_told: 0,
            rounds: Rounds::new(),
            swept: 0,
            joining: VecDeque::new(),
            unheard: HashMap::new(),
            sprite_polls: sprites::SpritePolls::default(),
        }
    }

    /// The first shard also does what is to be done once for the whole server.
    fn is_first(&self) -> bool {
        self.id == ShardId(0)
    }

    /// The number of visitors, when it changed or somebody read it, and at most once a second. Who
    /// read another number would keep it if that changed back.
    fn tell_site(&mut self, now: Instant) {
        let visitors = self.world.clients();
        let reads = self.world.site_reads.load(Ordering::Relaxed);
        let due = self.site.told_at.is_none_or(|at| now >= at + SITE_PERIOD);
        if (visitors, reads) != (self.site.visitors, self.site.reads) && due {
            self.site = SiteCount { visitors, reads, told_at: Some(now) };
            let body = serde_json::json!({ "visitors": visitors }).into();
            let visitors = Arc::new(Broadcast::new(SITE_TOPIC, "visitors", body, None));
            self.broadcast_here(visitors);
        }
    }

    /// Each shard moves the common gauge by what its own count moved.
    fn count_topics(&mut self) {
        let topics = self.hub.topics();
        self.world.metrics.topics.inc_by(topics as i64 - self.topics_told as i64);
        self.topics_told = topics;
    }
}

impl Tenant for Shard {
    type Ticket = Ticket;
    type Mail = Mail;

    fn route(
        &mut self,
        _now: Instant,
        from: std::net::SocketAddr,
        head: &edge::RequestHead<'_>,
    ) -> edge::Route<Ticket> {
        self.route_request(from, head)
    }

    fn open(&mut self, _: &mut Sockets, socket: SocketId, ticket: Ticket) -> u32 {
        self.admit_websocket(socket, ticket)
    }

    fn park(&mut self, sockets: &mut Sockets, socket: SocketId, ticket: Ticket) -> u32 {
        match ticket {
            Ticket::Poll { session } => self.park_poll(sockets, socket, session),
            Ticket::SpritePoll { plane, peer } => {
                self.park_sprite_poll(sockets, socket, &plane, peer)
            }
            Ticket::WebSocket { .. } => unreachable!("a websocket's ticket parks no poll"),
        }
    }

    fn text(&mut self, sockets: &mut Sockets, _: SocketId, key: u32, text: &str) {
        self.hear_text(sockets, key, text);
    }

    fn binary(&mut self, sockets: &mut Sockets, _: SocketId, key: u32, bytes: &[u8]) {
        self.hear_binary(sockets, key, bytes);
    }

    fn close(&mut self, sockets: &mut Sockets, socket: SocketId, key: u32, cause: CloseCause) {
        if sprites::is_sprite_poll(key) {
            self.sprite_poll_gone(sockets, key, socket);
            return;
        }
        match self.clients.get(key as usize).map(|client| &client.transport) {
            Some(client::Transport::WebSocket(open)) if *open == socket => {
                tracing::debug!(?socket, ?cause, "closed");
                self.remove_client(sockets, key);
            }
            Some(client::Transport::LongPoll(_)) => self.poll_gone(sockets, key, socket),
            _ => {}
        }
    }

    fn mail(&mut self, sockets: &mut Sockets, mail: Mail) {
        self.open_mail(sockets, mail);
    }

    fn tick(&mut self, sockets: &mut Sockets, now: Instant) {
        self.enter_ready(sockets);
        self.sweep_sessions(sockets, now);
        self.sweep_sprite_polls(sockets, now);
        self.count_topics();
        if self.is_first() {
            let (clients, connections) = (self.world.metrics.clients(), sockets.connections());
            self.world.cluster.count(Fill { clients, connections });
            self.begin_round(now);
            self.tell_presence(now);
            self.tell_site(now);
            self.world.pages.tick(now);
            self.world.planes.as_ref().inspect(|planes| planes.tick(now));
        }
    }

    fn work(&mut self, sockets: &mut Sockets) -> bool {
        let more = self.deliver_slice(sockets, SLICE);
        if more || !self.rounds.goes_on() {
            return more;
        }
        // What was told has left: now the next few.
        self.tell_presence(sockets.now());
        self.hub.waiting() > 0
    }

    fn hand_over(&mut self, to: Taker, parcel: Parcel) -> Result<(), Parcel> {
        self.world.cluster.hand_over(to, parcel)
    }

    fn drain(&mut self, sockets: &mut Sockets) {
        self.end_sessions(sockets);
        self.end_sprite_polls(sockets);
    }
}
