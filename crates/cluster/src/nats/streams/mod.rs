//! Streams of JetStream that store the messages of topics, and send to each process what they have stored.
//!
//! A message is stored before anybody gets it: [`Streams::publish`] reports the sequence that the stream gave
//! it, and the stream *republishes* it to the processes that follow the topic. Nothing else delivers it. So
//! all processes deliver the same messages, in the same order.
//!
//! [`Streams`] runs one thread with a connection of its own. It publishes in the order of the calls, reads, and
//! looks at each stream once a second: whether it is the same one, and whether messages got lost on the way here
//! ([`StreamHandler::to_compare`]).
//!
//! # The identity of a stream
//!
//! A sequence names a message only within its stream. The *epoch* is a hash of the stream's name and the time
//! of its creation. A cluster of NATS servers makes a stream whose servers have lost their data again, with the
//! same time. Then its sequences are lower than before: the first process that sees this three times in a row
//! counts it in the metadata of the stream, which is part of the epoch.

mod api;
mod names;
mod publisher;
mod watch;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, Event, Message};
use futures::StreamExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant as Clock, sleep};
use watchfire_types::{FixedHash, VitalThread};

pub use self::api::{StreamError, StreamMessage};
pub use self::names::StreamLimits;
pub use self::publisher::{OnPublished, Unpublished};
use self::publisher::{Publish, Publisher};
use crate::nats::refusals::Refusals;
use crate::nats::settings::{NatsError, NatsSettings};

/// The entry in the metadata of a stream that counts how often it began again.
const RESTARTS: &str = "watchfire-restarts";
/// Epochs have 40 bits, so that their text is short.
const EPOCH_MASK: u64 = (1 << 40) - 1;
/// The longest time that a read waits for a replica that lags.
const READ_TIMEOUT: Duration = Duration::from_secs(3);
/// The longest wait for streams at the start.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause before a stream is asked for again at the start.
const START_PAUSE: Duration = Duration::from_millis(200);
/// The pause before a replica that lags is asked again.
const READ_PAUSE: Duration = Duration::from_millis(50);
/// Reads at the same time. Further ones wait for them; a topic has one at most.
const READS_MAX: usize = 64;
/// How long the stream remembers the ids of messages.
const ID_WINDOW: Duration = Duration::from_secs(300);
/// The settings of a stream that may change.
const OWN_SETTINGS: [&str; 3] = ["num_replicas", "max_bytes", "duplicate_window"];
/// The oldest server with all that is used: (2, 11).
const VERSION_MIN: (i64, i64) = (2, 11);

/// The streams of a server.
#[derive(Clone, Debug)]
pub struct StreamSettings {
    pub nats: NatsSettings,
    /// Whether messages are kept in memory instead of files.
    pub in_memory: bool,
    pub replicas: u8,
    /// The most bytes of each stream.
    pub bytes_max: u64,
}

/// The messages of a topic that a stream had after a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRead {
    pub epoch: u64,
    pub messages: Vec<StreamMessage>,
    /// No message after this sequence was dropped.
    pub complete_from: u64,
    /// All messages up to this sequence are among them.
    pub last: u64,
}

/// The messages of a topic to read.
#[derive(Clone, Debug)]
pub struct StreamRequest {
    pub topic: Arc<str>,
    pub limits: StreamLimits,
    /// Names the read in its result.
    pub number: u64,
    /// Only messages after this sequence.
    pub after: u64,
    /// The topic has a message with this sequence, unless it was dropped since.
    pub until: u64,
}

/// A topic to compare with its stream, or that was compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The sequence up to which nothing was missing.
    pub known: u64,
    /// The last sequence of the topic; 0: none after `known`.
    pub last: u64,
    /// Later messages were not looked at.
    pub up_to: u64,
    /// The first sequence of the stream.
    pub first: u64,
}

/// Gets what the streams send. All calls come from one thread.
pub trait StreamHandler: Send + Sync + 'static {
    /// A stream has stored a message of a topic, after the one with the sequence `before`.
    fn stored(&self, topic: &str, before: u64, message: StreamMessage);

    /// A topic was read. `None`: it could not be read in time.
    fn read(&self, topic: &str, number: u64, read: Option<StreamRead>);

    /// Messages of any topic may be lost.
    fn interrupted(&self);

    /// Another stream took the place of one.
    fn replaced(&self, limits: StreamLimits);

    /// The topics after another one that are to be compared with their stream, which has reached the
    /// sequence `last`, each with the sequence up to which nothing of it is missing.
    fn to_compare(
        &self,
        limits: StreamLimits,
        after: Option<&Arc<str>>,
        last: u64,
        count: usize,
    ) -> Vec<(Arc<str>, u64)>;

    /// A topic was compared.
    fn compared(&self, topic: &str, compared: &Compared);
}

/// The figures of the streams of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamTotals {
    pub published: u64,
    /// Messages that were refused or not confirmed.
    pub unpublished: u64,
    pub received: u64,
    pub reads: u64,
    /// Reads that did not end in time.
    pub failed_reads: u64,
    /// Times that the connection was interrupted, or that this process was too slow.
    pub interruptions: u64,
    /// Streams that are not usable at present.
    pub troubles: u64,
}

#[derive(Debug, Default)]
struct Counters {
    received: AtomicU64,
    reads: AtomicU64,
    failed_reads: AtomicU64,
    interruptions: AtomicU64,
}

/// One stream.
struct Stream {
    limits: StreamLimits,
    name: String,
    /// 0: not known.
    epoch: AtomicU64,
    /// The highest sequence that this process has seen.
    last: AtomicU64,
    trouble: Mutex<Option<String>>,
}

enum Command {
    Publish(Publish),
    Follow { topic: Arc<str>, limits: StreamLimits },
    Unfollow { topic: Arc<str>, limits: StreamLimits },
    Read(StreamRequest),
}

/// The state that the calls and the thread share.
struct Shared {
    prefix: String,
    settings: StreamSettings,
    streams: Mutex<BTreeMap<StreamLimits, Arc<Stream>>>,
    publisher: Publisher,
    counters: Counters,
    refusals: Arc<Refusals>,
}

/// The streams of one process. They end when this is dropped.
pub struct Streams {
    shared: Arc<Shared>,
    /// Follows and reads are bounded by the topics, publications by [`Publisher`].
    commands: Option<mpsc::UnboundedSender<Command>>,
    waiting: Mutex<Option<mpsc::UnboundedReceiver<Command>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Streams {
    /// Streams that do nothing before [`Streams::start`]: follows and reads wait, and publications fail.
    pub fn new(settings: StreamSettings) -> Self {
        let (commands, waiting) = mpsc::unbounded_channel();
        let shared = Shared {
            prefix: settings.nats.prefix.clone(),
            settings,
            streams: Mutex::default(),
            publisher: Publisher::default(),
            counters: Counters::default(),
            refusals: Arc::default(),
        };
        Streams {
            shared: Arc::new(shared),
            commands: Some(commands),
            waiting: Mutex::new(Some(waiting)),
            thread: Mutex::default(),
        }
    }

    /// Asks whether the streams with these limits are usable, and makes or changes them if it `may_make` them.
    pub async fn check(
        settings: StreamSettings,
        all: Vec<StreamLimits>,
        may_make: bool,
    ) -> Result<(), StartError> {
        let streams = Streams::new(settings.clone());
        let client = settings.nats.connect("watchfire check", &streams.shared.refusals).await?;
        streams.shared.make_all(&client, all, may_make).await
    }

    /// Connects to NATS, makes the streams with these limits, and starts the thread.
    pub async fn start(
        &self,
        handler: Arc<dyn StreamHandler>,
        all: Vec<StreamLimits>,
    ) -> Result<(), StartError> {
        let Some(commands) = self.waiting.lock().take() else { return Ok(()) };
        let shared = self.shared.clone();
        let (started, is_started) = oneshot::channel();
        let run = move || -> io::Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                match Driver::connect(shared, handler, all).await {
                    Ok(driver) => {
                        started.send(Ok(())).ok();
                        driver.run(commands).await;
                    }
                    Err(error) => drop(started.send(Err(error))),
                }
            });
            Ok(())
        };
        let thread = thread::Builder::new().name("histories".into()).spawn(move || {
            let _vital = VitalThread::enter("histories");
            if let Err(error) = run() {
                tracing::error!(%error, "cannot run the histories");
            }
        });
        *self.thread.lock() = Some(thread.map_err(NatsError::Thread)?);
        is_started.await.unwrap_or_else(|_| {
            Err(StartError::Nats(NatsError::Thread(io::Error::other("the thread ended"))))
        })
    }

    /// Publishes a message. Messages with the same id are stored once, within five minutes. `done` gets the
    /// epoch and the sequence, once the stream has stored it, or the reason. It must not wait.
    pub fn publish(
        &self,
        topic: &str,
        limits: StreamLimits,
        (event, payload): (&str, &str),
        id: Option<&str>,
        done: OnPublished,
    ) {
        let stream = self.shared.stream(limits);
        let subject =
            format!("{}.{}", names::published(&self.shared.prefix, limits), names::place(topic));
        let body = api::encode_body(event, payload);
        let publish = Publish { stream, subject, body, id: id.map(str::to_owned), done };
        if let Some(publish) = self.shared.publisher.admit(publish) {
            self.send(Command::Publish(publish));
        }
    }

    /// Receives the messages of a topic that are stored from now on, and of some other topics.
    pub fn follow(&self, topic: Arc<str>, limits: StreamLimits) {
        self.send(Command::Follow { topic, limits });
    }

    /// Ends [`Streams::follow`]; each call ends one.
    pub fn unfollow(&self, topic: Arc<str>, limits: StreamLimits) {
        self.send(Command::Unfollow { topic, limits });
    }

    pub fn read(&self, request: StreamRequest) {
        self.send(Command::Read(request));
    }

    /// A sequence that the stream has reached.
    pub fn last(&self, limits: StreamLimits) -> u64 {
        self.shared.stream(limits).last.load(Ordering::Relaxed)
    }

    pub fn totals(&self) -> StreamTotals {
        let Shared { counters, publisher, streams, .. } = &*self.shared;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let streams = streams.lock();
        let troubles = streams.values().filter(|stream| stream.trouble.lock().is_some()).count();
        StreamTotals {
            published: of(&publisher.published),
            unpublished: of(&publisher.unpublished),
            received: of(&counters.received),
            reads: of(&counters.reads),
            failed_reads: of(&counters.failed_reads),
            interruptions: of(&counters.interruptions),
            troubles: troubles as u64,
        }
    }

    fn send(&self, command: Command) {
        // The thread ends at the end of the process, or by a panic that ends the process.
        self.commands.as_ref().expect("it is not dropped").send(command).ok();
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.commands.take();
        // The last user may be the thread itself, which ends after it.
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

/// Why histories cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Nats(#[from] NatsError),
    #[error("cannot keep histories in NATS: {0}")]
    Stream(StreamError),
}

impl From<StreamError> for StartError {
    fn from(cause: StreamError) -> Self {
        StartError::Stream(cause)
    }
}

impl Shared {
    fn stream(&self, limits: StreamLimits) -> Arc<Stream> {
        let mut streams = self.streams.lock();
        let stream = streams.entry(limits).or_insert_with(|| {
            Arc::new(Stream {
                limits,
                name: names::stream_name(&self.prefix, limits),
                epoch: AtomicU64::new(0),
                last: AtomicU64::new(0),
                trouble: Mutex::default(),
            })
        });
        stream.clone()
    }

    async fn make_all(
        &self,
        client: &Client,
        all: Vec<StreamLimits>,
        may_make: bool,
    ) -> Result<(), StartError> {
        let (major, minor) = VERSION_MIN;
        if !all.is_empty() && !client.is_server_compatible(major, minor, 0) {
            let version = client.server_info().version;
            return Err(StreamError::TooOld { version }.into());
        }
        let until = Clock::now() + START_TIMEOUT;
        for limits in all {
            let stream = self.stream(limits);
            // NATS servers that have just started choose a leader first.
            while let Err(error) = self.make(client, &stream, may_make).await {
                self.check_permissions()?;
                if !error.is_passing() || Clock::now() > until {
                    return Err(error.into());
                }
                sleep(START_PAUSE).await;
            }
            // The answer to a request comes after a refusal of this subscription.
            let stored = format!("{}.>", names::stored(&self.prefix, limits));
            let _subscribed = client.subscribe(stored).await.map_err(NatsError::from)?;
            match api::info(client, &stream.name, None).await {
                Err(StreamError::NotFound) if !may_make => {}
                info => drop(info?),
            }
            self.check_permissions()?;
        }
        Ok(())
    }

    fn check_permissions(&self) -> Result<(), StreamError> {
        let refusal = self.refusals.reason();
        refusal.map_or(Ok(()), |answer| Err(StreamError::NotPermitted { answer }))
    }

    /// Makes a stream, unless it exists with the same subjects, or it must not.
    async fn make(
        &self,
        client: &Client,
        stream: &Stream,
        may_make: bool,
    ) -> Result<(), StreamError> {
        let config = self.config(stream);
        let info = match api::info(client, &stream.name, None).await {
            Err(StreamError::NotFound) if !may_make => return Ok(()),
            Err(StreamError::NotFound) => api::create(client, &stream.name, &config).await?,
            info => info?,
        };
        let is_ours = ["subjects", "republish", "max_msgs_per_subject", "max_age"]
            .iter()
            .all(|key| info.config.get(*key) == config.get(*key));
        let reads_directly = info.config.get("allow_direct") == Some(&Value::Bool(true));
        if !is_ours || !reads_directly {
            return Err(StreamError::Foreign { name: stream.name.clone() });
        }
        // Another setting of this server.
        let differs = OWN_SETTINGS.into_iter().any(|key| info.config.get(key) != config.get(key));
        if differs && may_make {
            api::update(client, &stream.name, &updated(&info, &config)).await?;
        }
        stream.last.store(info.state.last, Ordering::Relaxed);
        stream.epoch.store(epoch(&stream.name, &info), Ordering::Relaxed);
        Ok(())
    }

    fn config(&self, stream: &Stream) -> Value {
        let StreamSettings { in_memory, replicas, bytes_max, .. } = self.settings;
        let limits = stream.limits;
        let published = format!("{}.>", names::published(&self.prefix, limits));
        let stored = format!("{}.>", names::stored(&self.prefix, limits));
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // A stream refuses a window that is longer than its age.
        let window = ID_WINDOW.min(limits.age);
        json!({
            "name": stream.name,
            "subjects": [published],
            "retention": "limits",
            "discard": "old",
            "storage": if in_memory { "memory" } else { "file" },
            "num_replicas": replicas,
            "max_consumers": -1,
            "max_msgs": -1,
            "max_bytes": bytes_max,
            "max_age": nanos(limits.age),
            "max_msgs_per_subject": limits.messages,
            "max_msg_size": -1,
            "duplicate_window": nanos(window),
            "allow_direct": true,
            "republish": { "src": published, "dest": stored },
            "metadata": { (RESTARTS): "0" },
        })
    }
}

/// The configuration of an existing stream, with these settings.
fn updated(info: &api::StreamInfo, config: &Value) -> Value {
    let mut merged = info.config.clone();
    for key in OWN_SETTINGS {
        merged.insert(key.into(), config[key].clone());
    }
    json!(merged)
}

fn epoch(name: &str, info: &api::StreamInfo) -> u64 {
    let hash = FixedHash::new(0).text(name).text(&info.created).number(info.restarts());
    // 0 is no epoch.
    (hash.finish() & EPOCH_MASK).max(1)
}

/// The state of the thread.
struct Driver {
    client: Client,
    shared: Arc<Shared>,
    handler: Arc<dyn StreamHandler>,
    reads: Arc<Semaphore>,
    /// By stream and partition: the subscription, and the topics in it.
    followed: HashMap<(StreamLimits, u16), (AbortHandle, usize)>,
}

impl Driver {
    async fn connect(
        shared: Arc<Shared>,
        handler: Arc<dyn StreamHandler>,
        all: Vec<StreamLimits>,
    ) -> Result<Driver, StartError> {
        let wake = Arc::new(Notify::new());
        let (observer, of_shared, to_wake) = (handler.clone(), shared.clone(), wake.clone());
        let observe = move |event: &Event| {
            if matches!(event, Event::Connected | Event::SlowConsumer(_)) {
                of_shared.counters.interruptions.fetch_add(1, Ordering::Relaxed);
                observer.interrupted();
                to_wake.notify_one();
            }
        };
        let nats = &shared.settings.nats;
        let client =
            nats.connect_observed("watchfire histories", &shared.refusals, observe).await?;
        shared.make_all(&client, all, true).await?;
        tokio::spawn(watch::run(client.clone(), shared.clone(), handler.clone(), wake));
        let reads = Arc::new(Semaphore::new(READS_MAX));
        Ok(Driver { client, shared, handler, reads, followed: HashMap::new() })
    }

    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        while let Some(command) = commands.recv().await {
            match command {
                Command::Publish(publish) => {
                    publisher::send(&self.client, &self.shared, publish).await
                }
                Command::Follow { topic, limits } => self.follow(&topic, limits).await,
                Command::Unfollow { topic, limits } => self.unfollow(&topic, limits),
                Command::Read(request) => self.read(request),
            }
        }
    }

    async fn follow(&mut self, topic: &str, limits: StreamLimits) {
        let partition = names::partition(topic);
        if let Some((_, topics)) = self.followed.get_mut(&(limits, partition)) {
            *topics += 1;
            return;
        }
        let subject = format!("{}.{partition:03x}.*", names::stored(&self.shared.prefix, limits));
        // Fails only when the client is closed, as it is at the end of the process.
        let Ok(mut subscriber) = self.client.subscribe(subject).await else { return };
        let (shared, handler) = (self.shared.clone(), self.handler.clone());
        let stream = shared.stream(limits);
        let receive = tokio::spawn(async move {
            while let Some(message) = subscriber.next().await {
                receive(&shared, &stream, &*handler, &message);
            }
        });
        self.followed.insert((limits, partition), (receive.abort_handle(), 1));
    }

    fn unfollow(&mut self, topic: &str, limits: StreamLimits) {
        let key = (limits, names::partition(topic));
        let Some((receive, topics)) = self.followed.get_mut(&key) else { return };
        *topics -= 1;
        if *topics == 0 {
            receive.abort();
            self.followed.remove(&key);
        }
    }

    fn read(&self, request: StreamRequest) {
        let (client, shared) = (self.client.clone(), self.shared.clone());
        let (handler, reads) = (self.handler.clone(), self.reads.clone());
        tokio::spawn(async move {
            let _permit = reads.acquire().await;
            shared.counters.reads.fetch_add(1, Ordering::Relaxed);
            let read = read(&client, &shared, &request).await;
            if read.is_none() {
                shared.counters.failed_reads.fetch_add(1, Ordering::Relaxed);
            }
            handler.read(&request.topic, request.number, read);
        });
    }
}

fn receive(shared: &Shared, stream: &Stream, handler: &dyn StreamHandler, message: &Message) {
    let topic = names::topic_of(&message.subject);
    let before = api::number(message, "Nats-Last-Sequence");
    // Other programs may use the subject, too.
    let (Some(topic), Some(before), Some(raw)) = (topic, before, api::decode(message)) else {
        return;
    };
    shared.counters.received.fetch_add(1, Ordering::Relaxed);
    stream.last.fetch_max(raw.sequence, Ordering::Relaxed);
    let api::RawMessage { sequence, event, payload, .. } = raw;
    handler.stored(&topic, before, StreamMessage { sequence, age: Duration::ZERO, event, payload });
}

/// Reads a topic, until a replica has what the leader has. The time without a connection does not count.
async fn read(client: &Client, shared: &Shared, request: &StreamRequest) -> Option<StreamRead> {
    let stream = shared.stream(request.limits);
    let mut until = Clock::now() + READ_TIMEOUT;
    loop {
        match read_once(client, shared, &stream, request).await {
            Ok(Some(read)) => return Some(read),
            Ok(None) => {}
            Err(error) => tracing::debug!(stream = stream.name, %error, "cannot read a topic"),
        }
        if client.connection_state() != State::Connected {
            until = Clock::now() + READ_TIMEOUT;
        } else if Clock::now() > until {
            return None;
        }
        sleep(READ_PAUSE).await;
    }
}

/// `None`: the replica that answered lacks messages that the leader has, or the stream was replaced meanwhile.
async fn read_once(
    client: &Client,
    shared: &Shared,
    stream: &Stream,
    request: &StreamRequest,
) -> Result<Option<StreamRead>, StreamError> {
    let StreamRequest { limits, after, until, .. } = *request;
    let place = names::place(&request.topic);
    let subject = format!("{}.{place}", names::published(&shared.prefix, limits));
    // Before the read: later messages arrive by themselves, because the leader knows who follows the topic.
    let before = api::info(client, &stream.name, Some(&subject)).await?;
    let (messages, extent) = api::read(client, &stream.name, &subject, after).await?;
    // After the read, so that messages that were dropped meanwhile count as missing.
    let info = api::info(client, &stream.name, None).await?;
    let first = info.state.first;
    let is_whole = after > 0 || extent.count >= before.count();
    let has_until = extent.last >= until || first > until;
    let is_same_stream = epoch(&stream.name, &before) == epoch(&stream.name, &info);
    if !is_whole || !has_until || !is_same_stream {
        return Ok(None);
    }
    let is_full = extent.count >= limits.messages as u64;
    // A stream without messages of the topic is known up to its end.
    let is_empty = extent.count == 0 && before.count() == 0;
    let age = |stored_at: &str| info.age(stored_at);
    let messages = messages.into_iter().map(|raw| StreamMessage {
        age: age(&raw.stored_at),
        sequence: raw.sequence,
        event: raw.event,
        payload: raw.payload,
    });
    Ok(Some(StreamRead {
        epoch: epoch(&stream.name, &info),
        messages: messages.collect(),
        complete_from: if is_full { extent.first } else { first.saturating_sub(1) },
        last: if is_empty { before.state.last.max(after) } else { extent.last },
    }))
}
