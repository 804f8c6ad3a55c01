//! Channels without code: `channels.rules` describes a channel for each topic pattern, and `auth`
//! the tokens with which clients join.
//!
//! A token comes with the request to connect, and then holds for all channels of the socket, or with
//! a join, and then holds for that channel. When it expires, the server closes the channels that
//! need it. A client replaces it with the event `refresh`.
//!
//! A rule may have hooks: then a backend decides about joins and messages after the rule (`hooked`).

mod channel;
mod expiries;
mod hooked;
mod realtime;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant as SystemInstant};

use channel::RuleChannel;
use expiries::Expiries;
use hooked::HookedChannel;
use parking_lot::Mutex;
use watchfire_auth::{self as auth, Auth, SocketToken};
use watchfire_channels::{PatternError, Payload};
use watchfire_hooks::Hooks;
use watchfire_hub::history::Bounds;
use watchfire_types::Instant;

use crate::channel_api::{Channel, Connect, Endpoint, OnConnect, Refused, Registry};
use crate::feature::Part;
use crate::metrics::MetricWriter;
use crate::settings::{ChannelRule, HistoryRule};

/// The parameter with the token, for clients that cannot send it in the subprotocol.
const PARAMETER: &str = "token";

/// The channels of `channels.rules`, as a feature of the server.
pub(crate) struct RuleFeature {
    rules: Vec<ChannelRule>,
    /// `None`: the server reads no tokens.
    auth: Option<Arc<dyn Auth>>,
    /// `None`: no rule has hooks.
    hooks: Option<Arc<dyn Hooks>>,
    expiries: Arc<Expiries>,
    endpoint: Arc<Endpoint>,
}

impl RuleFeature {
    pub fn new(
        rules: Vec<ChannelRule>,
        auth: Option<Arc<dyn Auth>>,
        hooks: Option<Arc<dyn Hooks>>,
        endpoint: Arc<Endpoint>,
    ) -> Self {
        RuleFeature { rules, auth, hooks, expiries: Arc::default(), endpoint }
    }
}

fn bounds(history: &HistoryRule) -> Bounds {
    let bytes = usize::try_from(history.bytes.0).unwrap_or(usize::MAX);
    Bounds { messages: history.messages as usize, age: history.age, bytes }
}

fn add(
    registry: &mut Registry,
    rule: &ChannelRule,
    channel: impl Channel,
) -> Result<(), PatternError> {
    match &rule.history {
        Some(history) => registry.add_with_history(&rule.pattern, channel, bounds(history)),
        None => registry.add(&rule.pattern, channel),
    }
}

impl Part for RuleFeature {
    fn register_channels(self: Arc<Self>, registry: &mut Registry) {
        if let Some(auth) = &self.auth {
            registry.on_connect = with_tokens(auth.clone(), registry.on_connect.clone());
        }
        if self.rules.iter().any(|rule| !rule.hooks.is_empty()) {
            registry.on_connect = with_addresses(registry.on_connect.clone());
        }
        for rule in &self.rules {
            let (auth, expiries) = (self.auth.clone(), self.expiries.clone());
            let channel = RuleChannel { rule: rule.clone(), auth, expiries };
            let checking = channel.clone();
            let added = match &self.hooks {
                Some(hooks) if !rule.hooks.is_empty() => {
                    let (hooks, endpoint) = (hooks.clone(), self.endpoint.clone());
                    let channel = HookedChannel { rule: channel, hooks, endpoint };
                    add(registry, rule, channel)
                }
                _ => add(registry, rule, channel),
            };
            added.expect("the patterns are checked at the start");
            let check = move |topic: &str, token: Option<&SocketToken>, payload: Payload<'_>| {
                checking.admit(topic, token, payload).map(drop)
            };
            registry.check_joins(&rule.pattern, Arc::new(check));
        }
    }

    fn handle_tick(&self, now: Instant) {
        self.expiries.notify_due(now, &self.endpoint);
    }

    fn write_metrics(&self, writer: &mut MetricWriter) {
        if let Some(hooks) = &self.hooks {
            hooks.write_metrics(writer);
        }
    }
}

/// A refused token is logged once in this time for each fault, so that a client cannot fill the log.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Verifies the token of a request to connect, if it has one, before the application's own rule. A
/// socket without a token is accepted: it may join the topics that need none.
fn with_tokens(auth: Arc<dyn Auth>, application: OnConnect) -> OnConnect {
    let logged = Mutex::<HashMap<&'static str, SystemInstant>>::default();
    Arc::new(move |connect: &Connect<'_>| {
        let token = connect.auth_token.or_else(|| connect.params.text(PARAMETER));
        let token = token.filter(|token| !token.is_empty());
        let grant = token.map(|token| auth.verify(token, auth::now())).transpose();
        let grant = grant.map_err(|fault| {
            let reason = fault.refusal().reason();
            let fault = fault.name();
            if is_due(&mut logged.lock(), fault) {
                tracing::warn!(
                    from = %connect.from,
                    fault,
                    reason,
                    "cannot accept a client: its token is refused; compare the key, the issuer and the clock of \
                     the backend with [auth]"
                );
            }
            tracing::debug!(from = %connect.from, fault, reason, "token refused");
            Refused::because("")
        })?;
        let mut connected = application(connect)?;
        if let Some(grant) = grant {
            connected.id.get_or_insert_with(|| grant.id.clone().into());
            connected.data_mut().token = Some(Arc::new(SocketToken::new(grant)));
        }
        Ok(connected)
    })
}

/// Whether a fault was not logged in the last minute. There are few faults.
fn is_due(logged: &mut HashMap<&'static str, SystemInstant>, fault: &'static str) -> bool {
    let now = SystemInstant::now();
    let last = logged.get(fault);
    let is_due = last.is_none_or(|last| now.duration_since(*last) >= LOG_INTERVAL);
    if is_due {
        logged.insert(fault, now);
    }
    is_due
}

/// Keeps the client's address for requests to the backend.
fn with_addresses(others: OnConnect) -> OnConnect {
    Arc::new(move |connect: &Connect<'_>| {
        let mut connected = others(connect)?;
        connected.data_mut().address = Some(connect.from.ip());
        Ok(connected)
    })
}
