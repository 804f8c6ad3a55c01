//! One client's long-poll session.
//!
//! # The reason
//!
//! A client without a WebSocket asks again and again. Between the answer to one GET and the next GET no
//! connection exists, yet messages for the client go on. If they were dropped, each poll would lose
//! the messages of a round trip. If they were kept without an end, a laptop that was shut would fill the
//! server. So a session outlives its connections, holds a bounded queue between two of them, and ends
//! when it cannot keep its promise.
//!
//! # The states
//!
//! - `Parked`: a GET waits. A message answers it immediately. After `window` without a message it is
//!   answered with [`Status::NoContent`], since proxies end a request that is silent for long.
//! - `Idle`: no GET waits. Messages are queued. The next GET gets all of them.
//! - `Ended`: a GET is answered [`Status::Gone`]. The client connects and joins again, and so knows
//!   that it has missed something.
//!
//! # An example
//!
//! With `window = 10s`, a GET is parked at 0 s and answered at 3 s with one message. The next GET is on
//! its way for 100 ms, in which five messages arrive. It gets these five, in their order, and is not
//! parked. An answer has at most `queued_bytes_max` bytes, or one message of any size: the rest waits for
//! the next GET. If no GET comes, the session ends at 18 s, one and a half windows after the answer: the
//! client had time for a lost connection and another trial. A parked GET whose connection closes does
//! the same, from the time of the close.
//!
//! A client may send a second GET while the first waits: a proxy repeated it, or the client gave up
//! the first. The newer one is parked, and the older one answered [`Status::NoContent`]. Otherwise a
//! message could go to a connection that nobody reads.
//!
//! # The limit of its promise
//!
//! An answer that was written is not queued any more. If the connection breaks under it, its messages
//! are lost, and the session goes on. A topic with a history gives them back.
//!
//! # The bounds
//!
//! A queue has at most `queued_messages_max` messages and `queued_bytes_max` bytes. One more ends the
//! session; to drop the oldest would leave a gap that nobody notices. A message counts at most a quarter
//! of the bytes, so that four of any size fit: a client that polls all the time is not ended by one
//! large message. An empty session has at most 56 bytes, and no heap.

use std::mem;
use std::time::Duration;

use bytes::Bytes;
use watchfire_types::Instant;

use super::answer::Status;

/// Messages of any size that a session holds for a poll.
const LARGE_MESSAGES: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongPollLimits {
    /// How long a poll is parked. A session ends when no poll arrives for one and a half windows
    /// after the response to the last one.
    pub window: Duration,
    /// Messages that wait for a poll. One more ends the session. The client learns it with its next
    /// request, connects and joins again, and so knows that it missed messages.
    pub queued_messages_max: u32,
    /// Bytes of messages that wait for a poll; above it, the session ends in the same way. One
    /// message counts at most a quarter of it, so a session holds at least four of any size.
    pub queued_bytes_max: u32,
    /// How many times both bounds may be exceeded now: more than once only for a client that polls, and
    /// whose messages the driver bounds in another way.
    pub leeway: u32,
}

impl Default for LongPollLimits {
    fn default() -> Self {
        LongPollLimits {
            window: Duration::from_secs(10),
            queued_messages_max: 1_000,
            queued_bytes_max: 1 << 20,
            leeway: 1,
        }
    }
}

impl LongPollLimits {
    fn idle_max(&self) -> Duration {
        self.window + self.window / 2
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A GET with the session's token arrived.
    Poll {
        /// The driver's id of the waiting connection, for [`Output::Answer`].
        connection: u64,
    },
    /// A message for the client, from [`super::escape_message`].
    Message(Bytes),
    /// The connection of a parked GET was closed.
    PollClosed { connection: u64 },
    /// The time of [`LongPoll::next_wake`] has come.
    Tick,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Respond to the GET that waits on this connection.
    Answer {
        connection: u64,
        /// [`Status::Ok`] with messages, [`Status::NoContent`] without, [`Status::Gone`] when the
        /// session has ended.
        status: Status,
        /// The messages, oldest first.
        messages: Vec<Bytes>,
    },
    /// The session has ended: close its channels and forget its token.
    End { reason: EndReason },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// No poll arrived in time.
    IdleTimeout,
    TooManyMessages,
    /// Too many bytes of messages waited for a poll.
    TooManyBytes,
}

/// One client's session: at most one parked poll, and a queue of messages for the next.
///
/// It uses no heap while the queue is empty. After its end it drops messages and answers polls with
/// [`Status::Gone`].
#[derive(Debug)]
pub struct LongPoll {
    queued: Vec<Bytes>,
    queued_bytes: u32,
    state: State,
    /// When the state began; for `Idle`, when the last poll was answered or closed.
    since: Instant,
}

const _: () = assert!(size_of::<LongPoll>() <= 56);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Parked { connection: u64 },
    Ended,
}

impl LongPoll {
    /// A new session, whose first GET is being answered with its token and [`Status::Gone`].
    pub fn new(now: Instant) -> LongPoll {
        LongPoll { queued: Vec::new(), queued_bytes: 0, state: State::Idle, since: now }
    }

    /// Processes one input and appends the outputs to `out`.
    pub fn handle_input(
        &mut self,
        now: Instant,
        limits: &LongPollLimits,
        input: Input,
        out: &mut Vec<Output>,
    ) {
        match (input, self.state) {
            (Input::Poll { connection }, State::Ended) => {
                out.push(Output::Answer { connection, status: Status::Gone, messages: Vec::new() });
            }
            (Input::Poll { connection }, _) => {
                self.answer_poll(now, limits, out);
                self.enter_state(now, State::Parked { connection });
                if !self.queued.is_empty() {
                    self.answer_poll(now, limits, out);
                }
            }
            (Input::Message(_), State::Ended) => {}
            (Input::Message(message), State::Parked { .. }) => {
                self.queued.push(message);
                self.answer_poll(now, limits, out);
            }
            (Input::Message(message), State::Idle) => self.queue(now, limits, message, out),
            (Input::PollClosed { connection }, State::Parked { connection: parked })
                if parked == connection =>
            {
                self.enter_state(now, State::Idle);
            }
            (Input::PollClosed { .. }, _) => {}
            (Input::Tick, state) => match (self.next_wake(limits), state) {
                (Some(at), State::Parked { .. }) if at <= now => self.answer_poll(now, limits, out),
                (Some(at), State::Idle) if at <= now => self.end(now, EndReason::IdleTimeout, out),
                _ => {}
            },
        }
    }

    /// When to send [`Input::Tick`]; `None` once ended.
    pub fn next_wake(&self, limits: &LongPollLimits) -> Option<Instant> {
        match self.state {
            State::Parked { .. } => Some(self.since + limits.window),
            State::Idle => Some(self.since + limits.idle_max()),
            State::Ended => None,
        }
    }

    /// When the state began: when the last poll arrived, was answered, or closed.
    pub fn since(&self) -> Instant {
        self.since
    }

    pub fn is_parked(&self) -> bool {
        matches!(self.state, State::Parked { .. })
    }

    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// The bytes of messages that wait for a poll, as they count for the limit.
    pub fn queued_bytes(&self) -> u32 {
        self.queued_bytes
    }

    /// The number of messages that wait for a poll.
    pub fn queued_messages(&self) -> usize {
        self.queued.len()
    }

    /// Ends the session for a reason of its driver's, which answers a parked poll itself. The queued
    /// messages are dropped.
    pub fn close(&mut self, now: Instant) {
        self.queued = Vec::new();
        self.queued_bytes = 0;
        self.enter_state(now, State::Ended);
    }

    /// Answers the parked poll, if any, with the oldest queued messages. The answer is a copy of them, so
    /// its bytes are bounded; the messages themselves may be shared with other sessions.
    fn answer_poll(&mut self, now: Instant, limits: &LongPollLimits, out: &mut Vec<Output>) {
        let State::Parked { connection } = self.state else { return };
        let mut bytes = 0;
        let fits = |message: &&Bytes| {
            bytes += message.len();
            bytes == message.len() || bytes <= limits.queued_bytes_max as usize
        };
        // Few polls have more than a quarter to take, of which no message can be longer than it counts.
        let rest = match self.queued_bytes < limits.queued_bytes_max / LARGE_MESSAGES {
            true => Vec::new(),
            false => self.queued.split_off(self.queued.iter().take_while(fits).count()),
        };
        self.queued_bytes = rest.iter().map(|message| counted(message, limits)).sum();
        let messages = mem::replace(&mut self.queued, rest);
        let status = if messages.is_empty() { Status::NoContent } else { Status::Ok };
        out.push(Output::Answer { connection, status, messages });
        self.enter_state(now, State::Idle);
    }

    fn queue(
        &mut self,
        now: Instant,
        limits: &LongPollLimits,
        message: Bytes,
        out: &mut Vec<Output>,
    ) {
        let queued_bytes = self.queued_bytes.saturating_add(counted(&message, limits));
        let most = |bound: u32| bound.saturating_mul(limits.leeway);
        if self.queued.len() >= most(limits.queued_messages_max) as usize {
            return self.end(now, EndReason::TooManyMessages, out);
        }
        if queued_bytes > most(limits.queued_bytes_max) {
            return self.end(now, EndReason::TooManyBytes, out);
        }
        self.queued.push(message);
        self.queued_bytes = queued_bytes;
    }

    fn end(&mut self, now: Instant, reason: EndReason, out: &mut Vec<Output>) {
        self.close(now);
        out.push(Output::End { reason });
    }

    fn enter_state(&mut self, now: Instant, state: State) {
        self.state = state;
        self.since = now;
    }
}

/// The bytes of a message as they count for the limit.
fn counted(message: &Bytes, limits: &LongPollLimits) -> u32 {
    let counted_max = (limits.queued_bytes_max / LARGE_MESSAGES).max(1);
    u32::try_from(message.len()).unwrap_or(u32::MAX).min(counted_max)
}
