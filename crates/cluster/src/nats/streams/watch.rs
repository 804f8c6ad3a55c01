//! Looks at each stream once a second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::api::{self, COMPARED_MAX, StreamError, StreamInfo};
use super::{Compared, RESTARTS, Shared, Stream, StreamHandler, StreamLimits, epoch, names};

const PERIOD: Duration = Duration::from_secs(1);
/// Comparisons of each stream in one period.
const COMPARISONS_MAX: usize = 4;
/// Bytes of subjects in one comparison.
const SUBJECT_BYTES_MAX: usize = 256 << 10;
/// Looks in a row at a stream with lower sequences than before, after which it has lost messages. A leader that is
/// about to lose its place may be behind.
const REGRESSIONS: u32 = 3;

/// The state of one stream between two looks.
#[derive(Default)]
struct Look {
    /// The last sequence at the look before: by now all replicas should have it.
    last: u64,
    regressions: u32,
    /// The topic that was compared last.
    compared: Option<Arc<str>>,
}

struct Watch {
    client: Client,
    shared: Arc<Shared>,
    handler: Arc<dyn StreamHandler>,
}

/// Looks at all streams, until the client is closed. An interruption wakes it.
pub(super) async fn run(
    client: Client,
    shared: Arc<Shared>,
    handler: Arc<dyn StreamHandler>,
    wake: Arc<Notify>,
) {
    let watch = Watch { client, shared, handler };
    let mut looks = BTreeMap::<StreamLimits, Look>::new();
    loop {
        timeout(PERIOD, wake.notified()).await.ok();
        if watch.client.connection_state() != State::Connected {
            continue;
        }
        let streams: Vec<Arc<Stream>> = watch.shared.streams.lock().values().cloned().collect();
        for stream in streams {
            let look = looks.entry(stream.limits).or_default();
            let trouble = watch.look(&stream, look).await.err();
            watch.note(&stream, trouble);
        }
    }
}

impl Watch {
    async fn look(&self, stream: &Stream, look: &mut Look) -> Result<(), StreamError> {
        let seen = stream.last.load(Ordering::Relaxed);
        let known_epoch = stream.epoch.load(Ordering::Relaxed);
        let info = match api::info(&self.client, &stream.name, None).await {
            // Somebody has deleted it, or nobody has made it: the rules of another machine name its limits.
            Err(StreamError::NotFound) => None,
            info => Some(info?),
        };
        let is_known = |info: &StreamInfo| epoch(&stream.name, info) == known_epoch;
        let Some(info) = info.filter(is_known) else {
            self.shared.make(&self.client, stream, true).await?;
            *look = Look::default();
            tracing::warn!(stream = stream.name, "another stream keeps the histories now");
            self.handler.replaced(stream.limits);
            return Ok(());
        };
        if info.state.last < seen {
            look.regressions += 1;
            if look.regressions >= REGRESSIONS {
                self.count_restart(stream, &info).await?;
            }
            return Ok(());
        }
        look.regressions = 0;
        stream.last.fetch_max(info.state.last, Ordering::Relaxed);
        self.compare(stream, look).await?;
        look.last = info.state.last;
        Ok(())
    }

    /// Gives a stream another epoch. Two processes that do it at the same time give it the same one.
    async fn count_restart(&self, stream: &Stream, info: &StreamInfo) -> Result<(), StreamError> {
        tracing::error!(stream = stream.name, "the stream has lost messages; clients are told");
        let mut config = info.config.clone();
        let metadata = config.entry("metadata".into()).or_insert_with(|| json!({}));
        metadata[RESTARTS] = (info.restarts() + 1).to_string().into();
        api::update(&self.client, &stream.name, &json!(config)).await.map(drop)
    }

    /// Compares topics with the stream, a part of them at each look.
    async fn compare(&self, stream: &Stream, look: &mut Look) -> Result<(), StreamError> {
        for _ in 0..COMPARISONS_MAX {
            let after = look.compared.as_ref();
            let mut topics = self.handler.to_compare(stream.limits, after, look.last, COMPARED_MAX);
            let is_end = topics.len() < COMPARED_MAX;
            let published = names::published(&self.shared.prefix, stream.limits);
            let mut bytes = 0;
            let subjects: Vec<String> = topics
                .iter()
                .map(|(topic, _)| format!("{published}.{}", names::place(topic)))
                .take_while(|subject| {
                    bytes += subject.len();
                    bytes <= SUBJECT_BYTES_MAX
                })
                .collect();
            let is_end = is_end && subjects.len() == topics.len();
            topics.truncate(subjects.len());
            look.compared = topics.last().map(|(topic, _)| topic.clone()).filter(|_| !is_end);
            let Some(least) = topics.iter().map(|(_, known)| *known).min() else { break };
            let found = api::last(&self.client, &stream.name, &subjects, least).await?;
            let (found, up_to) = found.unwrap_or((BTreeMap::new(), look.last));
            // After the comparison, so that messages that were dropped meanwhile count as missing.
            let first = api::info(&self.client, &stream.name, None).await?.state.first;
            for (topic, known) in topics {
                let last = found.get(&*topic).copied().unwrap_or(0);
                self.handler.compared(&topic, &Compared { known, last, up_to, first });
            }
            if is_end {
                break;
            }
        }
        Ok(())
    }

    fn note(&self, stream: &Stream, trouble: Option<StreamError>) {
        let trouble = trouble.map(|trouble| trouble.to_string());
        let mut known = stream.trouble.lock();
        match (&*known, &trouble) {
            (None, Some(error)) => {
                tracing::error!(stream = stream.name, %error, "histories are not available");
            }
            (Some(_), None) => {
                tracing::info!(stream = stream.name, "histories are available again")
            }
            _ => {}
        }
        *known = trouble;
    }
}
