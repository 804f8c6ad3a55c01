//! Channels without code: `channels.rules` describes a channel for each topic pattern, and `auth`
//! the tokens with which clients join.
//!
//! A token comes with the request to connect, and then holds for all channels of the socket, or with
//! a join, and then holds for that channel. When it expires, the server closes the channels that
//! need it. A client replaces it with the event `refresh`.

mod channel;
mod connect;
mod expiries;

use std::sync::Arc;

use channel::RuleChannel;
use expiries::Expiries;
use watchfire_history::Bounds;
use watchfire_types::Instant;

use crate::app::{Endpoint, Registry};
use crate::auth::Auth;
use crate::feature::Feature;
use crate::settings::{ChannelRule, HistoryRule};

/// The channels of `channels.rules`, as a feature of the server.
pub(crate) struct RuleFeature {
    rules: Vec<ChannelRule>,
    /// `None`: the server reads no tokens.
    auth: Option<Arc<Auth>>,
    expiries: Arc<Expiries>,
    endpoint: Arc<Endpoint>,
}

impl RuleFeature {
    pub fn new(rules: Vec<ChannelRule>, auth: Option<Arc<Auth>>, endpoint: Arc<Endpoint>) -> Self {
        RuleFeature { rules, auth, expiries: Arc::default(), endpoint }
    }
}

fn bounds(history: &HistoryRule) -> Bounds {
    let bytes = usize::try_from(history.bytes.0).unwrap_or(usize::MAX);
    Bounds { messages: history.messages as usize, age: history.age, bytes }
}

impl Feature for RuleFeature {
    fn register_channels(self: Arc<Self>, registry: &mut Registry) {
        if let Some(auth) = &self.auth {
            registry.on_connect = connect::with_tokens(auth.clone(), registry.on_connect.clone());
        }
        for rule in &self.rules {
            let (auth, expiries) = (self.auth.clone(), self.expiries.clone());
            let channel = RuleChannel { rule: rule.clone(), auth, expiries };
            let added = match &rule.history {
                None => registry.add(&rule.pattern, channel),
                Some(history) => registry.add_with_history(&rule.pattern, channel, bounds(history)),
            };
            added.expect("the patterns are checked at the start");
        }
    }

    fn handle_tick(&self, now: Instant) {
        self.expiries.notify_due(now, &self.endpoint);
    }
}
