//! The differences between seeds: the processes and event loops, and limits, often at their least sensible values.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;
use watchfire_types::Rng;

use super::backend;
use crate::settings::{
    ByteSize, ChannelRule, HistoryRule, Hook, JoinRule, OnFailure, PublishRule, Settings,
};

const TOKEN_SECRET: &str = "an HS256 secret of 32 bytes or more";
const HOOK_SECRET: &str = "a secret of hooks of 32 bytes or more";

/// All topics. The part before the colon names the rule.
pub(super) const TOPICS: [&str; 9] =
    ["plain:1", "plain:2", "here:1", "here:2", "kept:1", "asked:1", "token:1", "app:1", "app:2"];

pub(super) struct Plan {
    pub settings: Settings,
    pub processes: usize,
    pub clients_max: usize,
    pub steps: usize,
    /// Whether a long-poll session may end because its queue is full.
    pub is_longpoll_tight: bool,
    /// Whether a WebSocket that is not read may be closed because its queue is full.
    pub is_queue_tight: bool,
    /// Whether messages or joins may be refused as too fast.
    pub is_rate_tight: bool,
}

impl Plan {
    pub fn new(rng: &mut Rng) -> Plan {
        let processes = if rng.once_in(4) { 3 } else { 1 };
        let mut settings = Settings::default();
        settings.server.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        settings.server.shards = 1 + u16::from(rng.once_in(2));
        settings.server.drain_period = Duration::from_millis(20);
        // No timeout ends a client of the model.
        settings.socket.longpoll_window = Duration::from_secs(120);
        settings.socket.idle_timeout = Duration::from_secs(600);
        settings.socket.slow_timeout = Duration::from_secs(600);
        settings.auth.hs256_secret = TOKEN_SECRET.into();
        settings.auth.leeway = Duration::ZERO;
        settings.auth.expiry_notice = Duration::from_millis(rng.between(0, 1) * 200);
        settings.hooks.url = backend::url().into();
        settings.hooks.secret = HOOK_SECRET.into();
        settings.hooks.timeout = Duration::from_millis(200);
        settings.hooks.failures_max = if rng.once_in(2) { 2 } else { 1_000 };
        settings.hooks.retry_after = Duration::from_millis(20);
        settings.hooks.on_failure = if rng.once_in(2) { OnFailure::Allow } else { OnFailure::Deny };
        if rng.once_in(3) {
            settings.hooks.waiting_max = 1;
            settings.hooks.requests_max = 1;
        }
        settings.channels.rules = rules(rng);
        let limits = &mut settings.limits;
        limits.messages_per_second_per_socket = u16::MAX;
        limits.joins_per_second_per_socket = u16::MAX;
        let (is_longpoll_tight, is_queue_tight) = (rng.once_in(2), rng.once_in(2));
        let is_rate_tight = rng.once_in(12);
        if is_longpoll_tight {
            limits.longpoll_frames_max = rng.between(1, 8) as u32;
            if rng.once_in(3) {
                limits.longpoll_bytes_max = rng.between(200, 2_000) as u32;
            }
        }
        if is_queue_tight {
            limits.queued_bytes_max = 64 << 10;
        }
        if rng.once_in(3) {
            limits.channels_per_socket_max = rng.between(1, 3) as u16;
        }
        if is_rate_tight {
            limits.messages_per_second_per_socket = rng.between(1, 20) as u16;
            limits.joins_per_second_per_socket = rng.between(1, 3) as u16;
        }
        let (clients_max, steps) = (rng.between(3, 6) as usize, rng.between(15, 40) as usize);
        Plan {
            settings,
            processes,
            clients_max,
            steps,
            is_longpoll_tight,
            is_queue_tight,
            is_rate_tight,
        }
    }
}

fn rules(rng: &mut Rng) -> Vec<ChannelRule> {
    let rule = |pattern: &str, join, presence, hooks: &[Hook]| ChannelRule {
        join,
        publish: PublishRule::Clients,
        presence,
        hooks: hooks.to_vec(),
        ..ChannelRule::of(pattern)
    };
    let history = HistoryRule {
        messages: rng.between(1, 6) as u32,
        age: Duration::from_secs(300),
        bytes: ByteSize(if rng.once_in(3) { 300 } else { 1 << 20 }),
    };
    vec![
        rule("plain:*", JoinRule::Anyone, false, &[]),
        rule("here:*", JoinRule::Anyone, true, &[]),
        ChannelRule { history: Some(history), ..rule("kept:*", JoinRule::Anyone, false, &[]) },
        rule("asked:*", JoinRule::Anyone, true, &[Hook::Join, Hook::Publish, Hook::Leave]),
        rule("token:*", JoinRule::Token, false, &[]),
    ]
}

/// Whether clients on a topic are present there.
pub(super) fn has_presence(topic: &str) -> bool {
    topic.starts_with("here:") || topic.starts_with("asked:")
}

/// Whether the server keeps the messages of a topic.
pub(super) fn has_history(topic: &str) -> bool {
    topic.starts_with("kept:")
}

/// A client's token that is valid for some time.
pub(super) fn token(subject: &str, lifetime: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    let claims = json!({
        "sub": subject, "exp": (now + lifetime).as_secs_f64(),
        "channels": { "join": ["token:*"], "publish": ["token:*"] },
    });
    let parts = [json!({ "alg": "HS256" }), claims];
    let message = parts.map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let mac = Hmac::<Sha256>::new_from_slice(TOKEN_SECRET.as_bytes()).expect("any length");
    let signature = mac.chain_update(&message).finalize().into_bytes();
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

impl Plan {
    /// The plan in a few words, for the message of a failure.
    pub fn describe(&self) -> String {
        let limits = &self.settings.limits;
        format!(
            "{} processes of {} event loops, {} long-poll frames of {} bytes, {} queued bytes, {} channels, {} messages and {} joins a second",
            self.processes,
            self.settings.server.shards,
            limits.longpoll_frames_max,
            limits.longpoll_bytes_max,
            limits.queued_bytes_max,
            limits.channels_per_socket_max,
            limits.messages_per_second_per_socket,
            limits.joins_per_second_per_socket
        )
    }
}
