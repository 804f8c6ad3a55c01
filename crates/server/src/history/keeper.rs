//! The logs of a server of one machine, in the process that writes them: the only one, or the supervisor of
//! several.
//!
//! A worker that publishes sends the message to the supervisor. It writes the message into its log, sends it to the
//! workers that follow the topic, and tells the publisher. So a message that is acknowledged is not in a process that
//! has clients, which may be killed or hang. Each worker has a link of a bus of its own to the supervisor, and no
//! other. Following a topic is a subscription of that bus.
//!
//! A program that replaces another one takes its logs, and writes them from then on: see `hand_over`. Until the
//! other one has ended, it sends its messages to this one, and gets all messages.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock, Weak, mpsc};
use std::time::{Duration, Instant as SystemInstant};

use parking_lot::Mutex;
use watchfire_cluster::bus::{Bus, BusLimits, Handler, LocalBus, Loss};
use watchfire_hub::history::{Bounds, LogTotals, Logs, LogsImage, Message, Placed};
use watchfire_types::{Instant, NodeId};

use super::hand_over::{HandOverSockets, Taken, is_kept_here};
use super::messages::{FromKeeper, KEEPER, PREDECESSOR, ToKeeper, encode};
use super::publishes::Publishes;
use super::{Done, Local, Stored};
use crate::settings::Settings;

/// The longest wait for the thread of a bus to take a link.
const LINK_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the workers are told the sizes of the logs.
const TOTALS_PERIOD: Duration = Duration::from_secs(5);

/// The logs, and the links to the processes that follow them. Clones share them.
#[derive(Clone)]
pub(crate) struct LogKeeper(Arc<Shared>);

struct Shared {
    started_at: SystemInstant,
    state: Mutex<State>,
    /// The shards of this process, on a server of one process.
    local: Option<Local>,
    /// The bus to the workers, and to the program that this one replaces.
    bus: OnceLock<LocalBus>,
    told: Mutex<(SystemInstant, LogTotals)>,
}

/// Locked while a message goes to queues, so that all get the messages in the order of their positions.
struct State {
    logs: Logs,
    /// Writes the logs in the place of this process, whose logs are a copy then.
    successor: Option<Arc<Successor>>,
    has_predecessor: bool,
}

/// The link to the program that replaces this one.
struct Successor {
    bus: LocalBus,
    publishes: Publishes,
}

impl LogKeeper {
    /// The supervisor's keeper, if rules keep histories, and streams of JetStream do not.
    pub fn of_supervisor(
        settings: &Settings,
        sockets: Option<HandOverSockets>,
    ) -> io::Result<Option<Self>> {
        if !is_kept_here(settings) {
            return Ok(None);
        }
        let taken = sockets.and_then(|sockets| sockets.take(settings));
        Self::start(settings.channels.history_bytes_max, None, taken).map(Some)
    }

    /// A keeper for workers, or for the shards of this process. It has the logs of the program that this one
    /// replaces, if they were taken.
    pub fn start(
        memory_bytes_max: u64,
        local: Option<Local>,
        taken: Option<Taken>,
    ) -> io::Result<Self> {
        let started_at = SystemInstant::now();
        let memory_bytes_max = usize::try_from(memory_bytes_max).unwrap_or(usize::MAX);
        let (logs, predecessor) = match taken {
            Some(Taken { image, link }) => {
                (Logs::of_image(Instant::ZERO, image, memory_bytes_max), Some(link))
            }
            None => {
                let mut epoch = [0; 8];
                getrandom::fill(&mut epoch).map_err(io::Error::other)?;
                (Logs::new(u64::from_le_bytes(epoch), memory_bytes_max), None)
            }
        };
        let has_predecessor = predecessor.is_some();
        let has_bus = local.is_none() || has_predecessor;
        let keeper = LogKeeper(Arc::new(Shared {
            started_at,
            state: Mutex::new(State { logs, successor: None, has_predecessor }),
            local,
            bus: OnceLock::new(),
            told: Mutex::new((started_at, LogTotals::default())),
        }));
        if has_bus {
            let bus = LocalBus::start(KEEPER, BusLimits::default())?;
            bus.attach(Arc::new(OfWorkers(Arc::downgrade(&keeper.0))));
            let bus = keeper.0.bus.get_or_init(|| bus);
            predecessor.map(|link| bus.link(PREDECESSOR, link)).transpose()?;
        }
        Ok(keeper)
    }

    /// Adds the link to a worker, which replaces an earlier one.
    pub fn link(&self, slot: NodeId, stream: UnixStream) {
        let bus = self.0.bus.get().expect("a supervisor has a bus");
        if let Err(error) = bus.link(slot, stream) {
            tracing::error!(%slot, %error, "cannot link a worker process to the histories");
        }
    }

    /// Gives the logs to the program that replaces this one, which writes them from now on.
    pub fn give(&self, link: UnixStream) -> io::Result<LogsImage> {
        let bus = LocalBus::start(PREDECESSOR, BusLimits::default())?;
        let (up, is_up) = mpsc::channel();
        bus.attach(Arc::new(OfSuccessor { shared: Arc::downgrade(&self.0), up }));
        // Locked first, so that the end of the link is not noticed before its begin.
        let mut state = self.0.state.lock();
        bus.link(KEEPER, link)?;
        // Messages that are sent before are lost.
        is_up.recv_timeout(LINK_TIMEOUT).map_err(io::Error::other)?;
        state.successor = Some(Arc::new(Successor { bus, publishes: Publishes::default() }));
        Ok(state.logs.image(self.0.now()))
    }

    /// Writes a message, or lets the successor write it.
    pub fn publish(&self, topic: &str, bounds: Bounds, message: (&str, &str), done: Done) {
        self.0.publish(topic, bounds, message, done);
    }

    /// Runs an action on the logs.
    pub fn with<T>(&self, act: impl FnOnce(&mut Logs, Instant) -> T) -> T {
        act(&mut self.0.state.lock().logs, self.0.now())
    }

    /// Drops what is expired or unused. Called ten times a second.
    pub fn tick(&self) {
        let (totals, successor) = {
            let mut state = self.0.state.lock();
            state.logs.handle_tick(self.0.now());
            (state.logs.totals(), state.successor.clone())
        };
        if let Some(successor) = successor {
            successor.publishes.fail_late();
        }
        let mut told = self.0.told.lock();
        if told.0.elapsed() < TOTALS_PERIOD {
            return;
        }
        let before = std::mem::replace(&mut *told, (SystemInstant::now(), totals)).1;
        let dropped = totals.dropped_logs - before.dropped_logs;
        if dropped > 0 {
            tracing::warn!(
                dropped,
                "topics lost their kept messages; raise channels.history_bytes_max"
            );
        }
        if let Some(bus) = self.0.bus.get() {
            let LogTotals { logs, messages, memory_bytes, dropped_logs } = totals;
            let message = FromKeeper::Totals(logs, messages, memory_bytes, dropped_logs);
            bus.send_all(encode(&message), Loss::Drop);
        }
    }
}

impl Shared {
    fn now(&self) -> Instant {
        Instant::ZERO + self.started_at.elapsed()
    }

    fn publish(&self, topic: &str, bounds: Bounds, (event, payload): (&str, &str), done: Done) {
        let mut state = self.state.lock();
        if let Some(successor) = state.successor.clone() {
            drop(state);
            let Successor { bus, publishes } = &*successor;
            return publishes.publish(bus, topic, bounds, (event, payload), done);
        }
        let message = Message { event: event.into(), payload: payload.into() };
        let placed = state.logs.publish(self.now(), topic, bounds, message.clone());
        self.deliver(&state, topic, bounds, placed, &message);
        drop(state);
        done(Ok(Stored { position: Some(placed.position) }));
    }

    /// The successor has written a message.
    fn copy(&self, topic: &str, bounds: Bounds, offset: u64, message: &Message) {
        let mut state = self.state.lock();
        let placed = state.logs.append(self.now(), topic, bounds, offset, message.clone());
        self.deliver(&state, topic, bounds, placed, message);
    }

    fn deliver(
        &self,
        state: &State,
        topic: &str,
        bounds: Bounds,
        placed: Placed,
        message: &Message,
    ) {
        let Placed { after, position, is_first } = placed;
        if let Some(local) = self.local.as_ref().and_then(|local| local.get()) {
            local.deliver(&topic.into(), after, position, message);
        }
        let Some(bus) = self.bus.get() else { return };
        let (event, payload) = (&*message.event, &*message.payload);
        let (before, offset) = (if is_first { 0 } else { after.offset }, position.offset);
        let stored = encode(&FromKeeper::Stored { topic, bounds, before, offset, event, payload });
        // A worker whose queue is full gets a new link, and reads what it has missed.
        bus.publish(topic, stored.clone(), Loss::Cut);
        if state.has_predecessor {
            bus.send(PREDECESSOR, stored, Loss::Cut).ok();
        }
    }

    fn send(&self, to: NodeId, message: &FromKeeper<'_>) {
        if let Some(bus) = self.bus.get() {
            // A worker that is down reads again when it has a link.
            bus.send(to, encode(message), Loss::Cut).ok();
        }
    }

    fn answer(self: &Arc<Self>, from: NodeId, message: ToKeeper<'_>) {
        match message {
            ToKeeper::Publish { number, topic, bounds, event, payload } => {
                let shared = self.clone();
                let done = move |outcome: Result<Stored, _>| {
                    let position = outcome.ok().and_then(|stored| stored.position);
                    shared.send(from, &FromKeeper::Published { number, position });
                };
                self.publish(topic, bounds, (event, payload), Box::new(done));
            }
            ToKeeper::Read { number, topic, after } => {
                let read = self.state.lock().logs.read(self.now(), topic, after);
                let kept = read.messages.iter();
                let kept = kept.map(|kept| {
                    (kept.sequence, kept.age, &*kept.message.event, &*kept.message.payload)
                });
                let (messages, epoch) = (kept.collect(), read.epoch);
                let (complete_from, last) = (read.complete_from, read.last);
                let topic =
                    FromKeeper::Topic { number, topic, epoch, messages, complete_from, last };
                self.send(from, &topic);
            }
        }
    }
}

/// Receives the messages of workers and of the predecessor, on the thread of the bus.
struct OfWorkers(Weak<Shared>);

impl Handler for OfWorkers {
    fn up(&self, _: NodeId) {}

    fn down(&self, node: NodeId) {
        if let Some(shared) = self.0.upgrade()
            && node == PREDECESSOR
        {
            shared.state.lock().has_predecessor = false;
        }
    }

    fn interested(&self, _: NodeId, _: &str) {}

    fn forgotten(&self, _: &str) {}

    fn message(&self, from: NodeId, message: &[u8]) {
        let Some(shared) = self.0.upgrade() else { return };
        match postcard::from_bytes(message) {
            Ok(message) => shared.answer(from, message),
            Err(error) => tracing::error!(%from, %error, "cannot decode a message of a worker"),
        }
    }

    fn ready(&self, _: u64) {}
}

/// Receives the messages of the successor, on the thread of its bus.
struct OfSuccessor {
    shared: Weak<Shared>,
    up: mpsc::Sender<()>,
}

impl Handler for OfSuccessor {
    fn up(&self, _: NodeId) {
        self.up.send(()).ok();
    }

    /// The successor has ended before this process: it continues with its copy.
    fn down(&self, _: NodeId) {
        let Some(shared) = self.shared.upgrade() else { return };
        let successor = shared.state.lock().successor.take();
        if let Some(successor) = successor {
            successor.publishes.fail_all();
        }
    }

    fn interested(&self, _: NodeId, _: &str) {}

    fn forgotten(&self, _: &str) {}

    fn message(&self, _: NodeId, message: &[u8]) {
        let Some(shared) = self.shared.upgrade() else { return };
        match postcard::from_bytes(message) {
            Ok(FromKeeper::Stored { topic, bounds, offset, event, payload, .. }) => {
                let message = Message { event: event.into(), payload: payload.into() };
                shared.copy(topic, bounds, offset, &message);
            }
            Ok(FromKeeper::Published { number, position }) => {
                let successor = shared.state.lock().successor.clone();
                if let Some(successor) = successor {
                    successor.publishes.end(number, position);
                }
            }
            Ok(FromKeeper::Topic { .. } | FromKeeper::Totals(..)) => {}
            Err(error) => tracing::error!(%error, "cannot decode a message of the new program"),
        }
    }

    fn ready(&self, _: u64) {}
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use watchfire_hub::history::Position;

    use super::*;
    use crate::history::NotStored;
    use crate::history::messages::FORMAT;
    use crate::settings::{ChannelRule, HistoryRule, JoinRule};

    const BOUNDS: Bounds = Bounds { messages: 9, age: Duration::from_secs(60), bytes: 900 };
    const TIMEOUT: Duration = Duration::from_secs(10);

    fn settings() -> Settings {
        let mut settings = Settings::default();
        settings.channels.rules = vec![ChannelRule {
            join: JoinRule::Anyone,
            history: Some(HistoryRule::default()),
            ..ChannelRule::of("t:*")
        }];
        settings
    }

    fn give(sockets: HandOverSockets, keeper: &LogKeeper) -> io::Result<()> {
        let keeper = keeper.clone();
        sockets.give(move |link| keeper.give(link))
    }

    fn publish(keeper: &LogKeeper, payload: &str) -> Result<Stored, NotStored> {
        let (sender, outcome) = mpsc::channel();
        let done = Box::new(move |outcome| sender.send(outcome).expect("the test waits"));
        keeper.publish("t:1", BOUNDS, ("e", payload), done);
        outcome.recv_timeout(TIMEOUT).expect("an outcome")
    }

    fn payloads(keeper: &LogKeeper, after: Option<Position>) -> Option<String> {
        let after = after.expect("a position");
        let messages = keeper.with(|logs, now| logs.since(now, "t:1", after));
        Some(messages?.iter().map(|(_, message)| &*message.payload).collect())
    }

    #[test]
    fn a_program_that_replaces_another_one_goes_on_with_its_histories() {
        let old = LogKeeper::start(1 << 20, None, None).unwrap();
        let first = publish(&old, "a").unwrap().position;
        publish(&old, "b").unwrap();
        let (ours, theirs) = HandOverSockets::pair().unwrap();
        give(ours, &old).unwrap();
        let taken = theirs.take(&settings()).expect("the old program gives them");
        let new = LogKeeper::start(1 << 20, None, Some(taken)).unwrap();
        assert_eq!(payloads(&new, first).unwrap(), "b");
        // Clients of both programs get the messages of both, in one order.
        for (keeper, payload) in [(&old, "c"), (&new, "d"), (&old, "e")] {
            publish(keeper, payload).unwrap();
        }
        assert_eq!(payloads(&new, first).unwrap(), "bcde");
        assert_eq!(payloads(&old, first).unwrap(), "bcde");
        // The new program ends before the old one.
        drop(new);
        let started = std::time::Instant::now();
        while publish(&old, "f").is_err() {
            assert!(started.elapsed() < TIMEOUT, "the old program continues");
        }
        assert_eq!(payloads(&old, first).unwrap(), "bcdef");
    }

    #[test]
    fn histories_begin_again_when_the_old_program_ends_or_has_another_format() {
        let (ours, theirs) = HandOverSockets::pair().unwrap();
        drop(ours);
        assert!(theirs.take(&settings()).is_none());
        let old = LogKeeper::start(1 << 20, None, None).unwrap();
        let (ours, mut theirs) = HandOverSockets::pair().unwrap();
        give(ours, &old).unwrap();
        theirs.image.write_all(&(FORMAT + 1).to_le_bytes()).unwrap();
        assert_eq!(theirs.image.read(&mut [0]).unwrap(), 0);
        assert!(publish(&old, "a").is_ok(), "it has kept its histories");
    }
}
