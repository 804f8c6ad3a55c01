//! Whether the connection to the server still exists.
//!
//! A connection ends without a notice when a router restarts or gets another address. Heartbeats
//! alone show that after up to 30 s. So a server that owes a reply and sends nothing is asked.

use std::time::Duration;

use serde_json::json;
use watchfire_types::Instant;

use super::{Output, PageProtocol, PendingRequest};
use crate::frame;

pub(super) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(20);
/// When a reply is due and nothing at all arrives for this long, a heartbeat asks whether the
/// connection still exists.
pub(super) const QUIET_MAX: Duration = Duration::from_secs(3);
/// Without anything from the server in this time after it, the connection is replaced.
pub(super) const PROBE_TIMEOUT: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub(super) struct Liveness {
    pub(super) heartbeat_at: Instant,
    /// When the server last sent anything.
    heard_at: Instant,
    /// When the connection counts as gone. `None` while the server is not asked.
    probe_ends_at: Option<Instant>,
}

impl Liveness {
    pub(super) fn new(now: Instant) -> Self {
        Liveness { heartbeat_at: now + HEARTBEAT_INTERVAL, heard_at: now, probe_ends_at: None }
    }

    pub(super) fn note_heard(&mut self, now: Instant) {
        self.heard_at = now;
        self.probe_ends_at = None;
    }

    /// Whether the server has sent anything in this last period.
    pub(super) fn has_heard_within(&self, now: Instant, period: Duration) -> bool {
        now.since(self.heard_at) < period
    }
}

impl PageProtocol {
    pub(super) fn send_heartbeat(&mut self, now: Instant) {
        self.liveness.heartbeat_at = now + HEARTBEAT_INTERVAL;
        let reference = self.reference(now, PendingRequest::Heartbeat);
        let heartbeat = frame::text(None, reference, "phoenix", "heartbeat", &json!({}));
        self.outputs.push_back(Output::Text(heartbeat));
    }

    /// When to ask the server, or to give the connection up. `None` while no reply is due.
    pub(super) fn probe_wake(&self) -> Option<Instant> {
        let (oldest_sent_at, _) = self.sent.front()?;
        let quiet_at = self.liveness.heard_at.max(*oldest_sent_at) + QUIET_MAX;
        Some(self.liveness.probe_ends_at.unwrap_or(quiet_at))
    }

    pub(super) fn probe_if_quiet(&mut self, now: Instant) {
        if self.probe_wake().is_none_or(|at| at > now) {
            return;
        }
        if self.liveness.probe_ends_at.is_some() {
            self.report_broken("the server did not reply in time");
        } else {
            self.liveness.probe_ends_at = Some(now + PROBE_TIMEOUT);
            self.send_heartbeat(now);
        }
    }
}
