//! One client's long-poll session.

use std::mem;
use std::time::Duration;

use bytes::Bytes;
use watchfire_types::Instant;

use super::answer::Status;

/// What a long-poll session may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongPollLimits {
    /// How long a poll is parked. A session ends when one and a half times as long no poll came,
    /// counted from the answer to the last one.
    pub window: Duration,
    /// How many messages wait for a poll. One more ends the session: its client is told so by its
    /// next request, connects anew and joins again, and so knows that it missed something.
    pub queued_messages_max: u32,
    /// How many bytes of messages wait for a poll, with the same end.
    pub queued_bytes_max: u32,
}

impl Default for LongPollLimits {
    fn default() -> Self {
        LongPollLimits {
            window: Duration::from_secs(10),
            queued_messages_max: 1_000,
            queued_bytes_max: 1 << 20,
        }
    }
}

impl LongPollLimits {
    fn silence_max(&self) -> Duration {
        self.window + self.window / 2
    }
}

/// What happens to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A GET with the session's token arrived.
    Poll {
        /// The driver's name for the waiting connection; comes back in [`Output::Answer`].
        connection: u64,
    },
    /// A message for the client, from [`super::escape_message`].
    Message(Bytes),
    /// The connection of a parked GET is gone.
    PollGone {
        /// Which.
        connection: u64,
    },
    /// Time passed.
    Tick,
}

/// What a session wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Answer the GET that waits on this connection.
    Answer {
        /// The connection from [`Input::Poll`].
        connection: u64,
        /// [`Status::Ok`] with messages, [`Status::NoContent`] without, [`Status::Gone`] when the
        /// session has ended.
        status: Status,
        /// The messages, oldest first.
        messages: Vec<Bytes>,
    },
    /// The session is over: close its channels and forget its token.
    End {
        /// Why.
        reason: EndReason,
    },
}

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndReason {
    /// No poll came for too long.
    Silent,
    /// Too many messages waited for a poll.
    TooManyMessages,
    /// Messages of too many bytes waited for a poll.
    TooManyBytes,
}

/// One client's session: at most one parked poll, and what waits for the next.
///
/// It holds no heap while nothing waits. After its end it swallows messages and answers polls
/// with [`Status::Gone`].
#[derive(Debug)]
pub struct LongPoll {
    queued: Vec<Bytes>,
    queued_bytes: u32,
    state: State,
    /// When the state began. For `Quiet` that is when the last poll was answered or lost.
    since: Instant,
}

const _: () = assert!(size_of::<LongPoll>() <= 56);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Quiet,
    Parked { connection: u64 },
    Ended,
}

impl LongPoll {
    /// A session whose opening GET is answered now, with its token and [`Status::Gone`].
    pub fn new(now: Instant) -> LongPoll {
        LongPoll { queued: Vec::new(), queued_bytes: 0, state: State::Quiet, since: now }
    }

    /// Take one input; what it leads to is appended to `out`.
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
                self.release(now, out);
                self.become_state(now, State::Parked { connection });
                if !self.queued.is_empty() {
                    self.release(now, out);
                }
            }
            (Input::Message(_), State::Ended) => {}
            (Input::Message(message), State::Parked { .. }) => {
                self.queued.push(message);
                self.release(now, out);
            }
            (Input::Message(message), State::Quiet) => self.queue(now, limits, message, out),
            (Input::PollGone { connection }, State::Parked { connection: parked })
                if parked == connection =>
            {
                self.become_state(now, State::Quiet);
            }
            (Input::PollGone { .. }, _) => {}
            (Input::Tick, state) => match (self.next_wake(limits), state) {
                (Some(at), State::Parked { .. }) if at <= now => self.release(now, out),
                (Some(at), State::Quiet) if at <= now => self.end(now, EndReason::Silent, out),
                _ => {}
            },
        }
    }

    /// When to send [`Input::Tick`]; `None` once ended.
    pub fn next_wake(&self, limits: &LongPollLimits) -> Option<Instant> {
        match self.state {
            State::Parked { .. } => Some(self.since + limits.window),
            State::Quiet => Some(self.since + limits.silence_max()),
            State::Ended => None,
        }
    }

    /// Is a poll parked?
    pub fn is_parked(&self) -> bool {
        matches!(self.state, State::Parked { .. })
    }

    /// Has the session ended?
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// How many bytes of messages wait for a poll.
    pub fn queued_bytes(&self) -> u32 {
        self.queued_bytes
    }

    /// Answer the parked poll, if there is one, with all that waits.
    fn release(&mut self, now: Instant, out: &mut Vec<Output>) {
        let State::Parked { connection } = self.state else { return };
        let messages = mem::take(&mut self.queued);
        self.queued_bytes = 0;
        let status = if messages.is_empty() { Status::NoContent } else { Status::Ok };
        out.push(Output::Answer { connection, status, messages });
        self.become_state(now, State::Quiet);
    }

    fn queue(
        &mut self,
        now: Instant,
        limits: &LongPollLimits,
        message: Bytes,
        out: &mut Vec<Output>,
    ) {
        let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
        let queued_bytes = self.queued_bytes.saturating_add(len);
        if self.queued.len() >= limits.queued_messages_max as usize {
            return self.end(now, EndReason::TooManyMessages, out);
        }
        if queued_bytes > limits.queued_bytes_max {
            return self.end(now, EndReason::TooManyBytes, out);
        }
        self.queued.push(message);
        self.queued_bytes = queued_bytes;
    }

    fn end(&mut self, now: Instant, reason: EndReason, out: &mut Vec<Output>) {
        self.queued = Vec::new();
        self.queued_bytes = 0;
        self.become_state(now, State::Ended);
        out.push(Output::End { reason });
    }

    fn become_state(&mut self, now: Instant, state: State) {
        self.state = state;
        self.since = now;
    }
}
