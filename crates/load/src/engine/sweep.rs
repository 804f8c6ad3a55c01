//! Checks of all users: their timeouts and heartbeats, and the end of those that only stay. A few users are checked in
//! each turn, so that the next due user is not late.

use std::time::Duration;

use watchfire_types::Instant;

use super::user::{Connection, NEVER, Waiting};
use super::{Engine, millis};
use crate::failure::Failure;

/// Users with a timeout or a heartbeat in one turn.
const SWEPT_PER_TURN: usize = 16;
/// Slots that are checked for timeouts in one turn.
const SLOTS_PER_TURN: usize = 1_000;
/// Interval between checks of timeouts and heartbeats.
pub(super) const SWEEP_PERIOD: Duration = Duration::from_millis(200);

impl Engine<'_> {
    /// Whether a check of all slots is in progress.
    pub(super) fn is_searching(&self) -> bool {
        let closes = self.closed_before.is_some_and(|slot| slot < self.users.capacity());
        self.swept.is_some() || (closes && self.pages_loading == 0)
    }

    /// Checks all users for timeouts and due heartbeats, a few of them in each turn.
    pub(super) fn sweep(&mut self, now: Instant) {
        if now >= self.sweep_at && self.swept.is_none() {
            self.swept = Some(0);
            self.sweep_at = now + SWEEP_PERIOD;
        }
        let Some(first) = self.swept else { return };
        if first == 0 {
            self.check_meeting(now);
        }
        let since = now;
        let now = millis(now);
        let mut acted = 0;
        let last = (first + SLOTS_PER_TURN).min(self.users.capacity());
        for index in first..last {
            self.swept = Some(index + 1);
            let Some(user) = self.users.get(index) else { continue };
            if user.times_out_at <= now {
                self.time_out(index);
            } else if user.heartbeat_at <= now {
                self.heartbeat(index, now);
            } else if !self.resumes_reading(index, since) {
                continue;
            }
            acted += 1;
            if acted == SWEPT_PER_TURN {
                return;
            }
        }
        if last == self.users.capacity() {
            self.swept = None;
        }
    }

    fn time_out(&mut self, index: usize) {
        let is_poll_over = self.is_poll_over(&self.users[index]);
        self.users[index].times_out_at = NEVER;
        let connection = self.users[index].connection;
        match connection {
            // The server did not close the connection in time.
            Connection::Closing => self.handle_closed(index),
            _ if is_poll_over => {
                self.drop_socket(index);
                self.complete(index);
            }
            _ if self.tries_next_peer(index) => {}
            _ => {
                if self.users[index].is_connecting {
                    self.note_address_failed(index);
                }
                self.fail(index, Failure::TimedOut);
            }
        }
    }

    fn heartbeat(&mut self, index: usize, now: u32) {
        let user = &mut self.users[index];
        if user.is_heartbeat_unanswered {
            self.fail(index, Failure::HeartbeatUnanswered);
            return;
        }
        user.is_heartbeat_unanswered = true;
        user.heartbeat_at = now + u32::from(user.heartbeat_seconds) * 1000;
        self.send_heartbeat(index);
    }

    /// After the end of the load: disconnect the users that only stay, a few in each turn. They may
    /// serve a page, so all stay while one is loaded.
    pub(super) fn close_idle(&mut self) {
        let first = *self.closed_before.get_or_insert(0);
        if self.pages_loading > 0 {
            return;
        }
        let last = (first + SLOTS_PER_TURN).min(self.users.capacity());
        self.closed_before = Some(last);
        let mut acted = 0;
        for index in first..last {
            if self.users.get(index).is_some_and(|user| user.waiting == Waiting::Over) {
                let user = &mut self.users[index];
                user.waiting = Waiting::Nothing;
                user.position += 1;
                self.advance(index);
                acted += 1;
                if acted == SWEPT_PER_TURN {
                    self.closed_before = Some(index + 1);
                    return;
                }
            }
        }
    }
}
