//! A session's steps as a list of small operations, so that a user needs only a place in it.

use std::time::Duration;

use super::text::Text;

/// Loops inside of loops; a user keeps one counter for each.
pub(crate) const LOOPS_NESTED_MAX: usize = 3;

/// The name that a step is measured under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StepId(pub(crate) u16);

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Connect(Box<Connect>),
    Send(Box<Send>),
    /// Wait for a message.
    Expect {
        step: StepId,
        wanted: Wanted,
    },
    Think(Think),
    LoopBegin {
        depth: usize,
    },
    /// Back to `begin` until it was passed so often; `None` until the load is over.
    LoopEnd {
        depth: usize,
        begin: usize,
        times: Option<u32>,
    },
    Http(Box<Http>),
    Poll(Box<Poll>),
    Disconnect {
        step: Option<StepId>,
    },
    /// Do nothing for so long; `None` until the load is over.
    Stay(Option<Duration>),
}

#[derive(Clone, Debug)]
pub(crate) struct Connect {
    pub(crate) step: StepId,
    pub(crate) path: Text,
    /// Whole header lines.
    pub(crate) headers: Text,
    pub(crate) serializer: Serializer,
    /// How often to say that the user is still there; `None` for never.
    pub(crate) heartbeat: Option<Duration>,
}

/// What the messages on a websocket are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serializer {
    /// Nothing that we know.
    Raw,
    /// Phoenix objects.
    V1,
    /// Phoenix arrays.
    V2,
}

#[derive(Clone, Debug)]
pub(crate) struct Send {
    pub(crate) step: StepId,
    pub(crate) message: Message,
    pub(crate) wanted: Wanted,
    /// Everyone of its audience is to hear it.
    pub(crate) is_broadcast: bool,
    pub(crate) effect: Effect,
}

/// What a message has to do with one of the scenario's audiences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    /// Its sender is of the audience as soon as it is answered, or no longer from now on.
    Joins(u8),
    Leaves(u8),
    /// It is a broadcast to the audience.
    Addresses(u8),
}

#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// As it stands.
    Raw { text: Text, is_binary: bool },
    /// A Phoenix message; its ref is given when it is sent.
    Push {
        /// Of the topic's join.
        join_ref: u32,
        /// It is that join.
        is_join: bool,
        topic: Text,
        event: Text,
        payload: Text,
    },
}

impl Message {
    /// Whether receivers can tell from it how long it was under way.
    pub(crate) fn is_timed(&self) -> bool {
        match self {
            Message::Raw { text, .. } => text.is_timed(),
            Message::Push { payload, .. } => payload.is_timed(),
        }
    }
}

/// What ends a step that waits for a message.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// Nothing: it is done when it is sent.
    Nothing,
    /// The reply to this message, with this status.
    Reply,
    /// Any message.
    Any,
    /// A message with this text in it.
    Containing(Text),
}

#[derive(Clone, Debug)]
pub(crate) struct Think {
    pub(crate) time: ThinkTime,
    /// Counted from when the step before was answered, rather than due.
    pub(crate) is_after_answer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ThinkTime {
    Fixed(Duration),
    Uniform(Duration, Duration),
    /// With this mean.
    Exponential(Duration),
}

#[derive(Clone, Debug)]
pub(crate) struct Http {
    pub(crate) step: StepId,
    pub(crate) method: String,
    pub(crate) path: Text,
    /// Whole header lines.
    pub(crate) headers: Text,
    pub(crate) body: Text,
    /// `None` takes any below 400.
    pub(crate) status: Option<u16>,
    /// Any at all.
    pub(crate) is_any_status_taken: bool,
    /// A text that must be in the body.
    pub(crate) contains: Option<Text>,
    /// JSON pointers into the answer's body, and where their values are kept.
    pub(crate) save: Vec<(String, usize)>,
    pub(crate) timeout: Option<Duration>,
}

/// Ask again and again.
#[derive(Clone, Debug)]
pub(crate) struct Poll {
    pub(crate) request: Http,
    /// Until an answer has this text in it.
    pub(crate) until: Option<Text>,
    /// Until this time is over.
    pub(crate) period: Option<Duration>,
}
