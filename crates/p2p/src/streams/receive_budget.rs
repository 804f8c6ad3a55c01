//! Bounds the memory of messages that are being received.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// How long any message may take to arrive while other messages wait for room.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// The slowest rate at which a message may arrive beyond [`MESSAGE_TIMEOUT`].
const BYTES_PER_SECOND_MIN: u64 = 64 << 10;

/// The budget of a whole host, in bytes of messages that the host has not processed yet.
///
/// When the budget is used up, messages that arrive too slowly lose their reservation. Otherwise a
/// few peers that start messages and never finish them could block all other peers.
#[derive(Clone, Debug)]
pub(crate) struct HostReceiveBudget {
    state: Arc<Mutex<HostState>>,
}

#[derive(Debug)]
struct HostState {
    free_bytes: usize,
    /// Messages that have not arrived completely, by the number of their reservation.
    partial_messages: BTreeMap<u64, PartialMessage>,
    next_number: u64,
    /// At most one for each stream.
    waiting: Vec<Waker>,
}

#[derive(Debug)]
struct PartialMessage {
    due_at: Instant,
    is_revoked: bool,
    waker: Option<Waker>,
}

/// The budget of one connection, shared by its streams.
///
/// Before its first byte is read, a message reserves its whole length here and in the budget of the
/// host. Without room it waits in its stream. The largest message fits into an empty budget, so one
/// message can always proceed.
#[derive(Clone, Debug)]
pub(super) struct ReceiveBudget {
    state: Arc<Mutex<ConnectionState>>,
    host: HostReceiveBudget,
}

#[derive(Debug)]
struct ConnectionState {
    free_bytes: usize,
    /// Whether bytes of a message arrived since the last [`ReceiveBudget::take_progress`].
    has_progress: bool,
    /// At most one for each stream.
    waiting: Vec<Waker>,
}

/// A reserved part of the budget. Dropping it frees the part.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: ReceiveBudget,
    bytes: usize,
    number: u64,
}

/// The result of [`ReceiveBudget::reserve`].
#[derive(Debug)]
pub(super) enum Grant {
    Reserved(Reservation),
    /// There is no room. The caller is woken when some is freed.
    Wait,
    /// The host has no room. The caller is woken when some is freed, and must try again at this
    /// time, when a slow message loses its reservation.
    WaitUntil(Instant),
}

impl HostReceiveBudget {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let (partial_messages, waiting) = (BTreeMap::new(), Vec::new());
        let state = HostState { free_bytes: bytes_max, partial_messages, next_number: 0, waiting };
        HostReceiveBudget { state: Arc::new(Mutex::new(state)) }
    }

    /// Makes all partial messages overdue.
    #[cfg(test)]
    pub(super) fn expire_all(&self) {
        let now = Instant::now();
        self.lock().partial_messages.values_mut().for_each(|message| message.due_at = now);
    }

    fn lock(&self) -> MutexGuard<'_, HostState> {
        self.state.lock()
    }
}

impl HostState {
    /// Revokes the reservations of overdue messages. Returns when the next one becomes overdue.
    fn revoke_overdue(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for message in self.partial_messages.values_mut().filter(|message| !message.is_revoked) {
            if message.due_at <= now {
                message.is_revoked = true;
                message.waker.take().into_iter().for_each(Waker::wake);
            } else {
                next = Some(next.map_or(message.due_at, |next| next.min(message.due_at)));
            }
        }
        next
    }
}

impl ReceiveBudget {
    pub(super) fn new(bytes_max: usize, host: HostReceiveBudget) -> Self {
        let state =
            ConnectionState { free_bytes: bytes_max, has_progress: false, waiting: Vec::new() };
        ReceiveBudget { state: Arc::new(Mutex::new(state)), host }
    }

    /// Reserves room for a message of `bytes`.
    pub(super) fn reserve(&self, bytes: usize, cx: &mut Context<'_>) -> Grant {
        let mut connection = self.lock();
        if bytes > connection.free_bytes {
            connection.waiting.push(cx.waker().clone());
            return Grant::Wait;
        }
        let mut host = self.host.lock();
        let now = Instant::now();
        if bytes > host.free_bytes {
            host.waiting.push(cx.waker().clone());
            return host.revoke_overdue(now).map_or(Grant::Wait, Grant::WaitUntil);
        }
        connection.free_bytes -= bytes;
        host.free_bytes -= bytes;
        let number = host.next_number;
        host.next_number += 1;
        let due_at =
            now + MESSAGE_TIMEOUT + Duration::from_secs(bytes as u64 / BYTES_PER_SECOND_MIN);
        let message = PartialMessage { due_at, is_revoked: false, waker: None };
        host.partial_messages.insert(number, message);
        Grant::Reserved(Reservation { budget: self.clone(), bytes, number })
    }

    /// Notes that bytes of a message arrived.
    pub(super) fn note_progress(&self) {
        self.lock().has_progress = true;
    }

    /// Returns whether bytes of a message arrived since the last call.
    pub(super) fn take_progress(&self) -> bool {
        std::mem::take(&mut self.lock().has_progress)
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock()
    }
}

impl Reservation {
    /// Returns whether the message lost its reservation because it arrives too slowly. If not, the
    /// caller is woken when that happens.
    pub(super) fn poll_revoked(&self, cx: &mut Context<'_>) -> bool {
        let mut host = self.budget.host.lock();
        let Some(message) = host.partial_messages.get_mut(&self.number) else { return false };
        if !message.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            message.waker = Some(cx.waker().clone());
        }
        message.is_revoked
    }

    /// Notes that the whole message arrived, so that the reservation cannot be revoked any more.
    pub(super) fn complete(&self) {
        self.budget.host.lock().partial_messages.remove(&self.number);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut connection = self.budget.lock();
        connection.free_bytes += self.bytes;
        let mut waiting = std::mem::take(&mut connection.waiting);
        drop(connection);
        let mut host = self.budget.host.lock();
        host.free_bytes += self.bytes;
        host.partial_messages.remove(&self.number);
        waiting.append(&mut host.waiting);
        drop(host);
        waiting.into_iter().for_each(Waker::wake);
    }
}
