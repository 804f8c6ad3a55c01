//! A compiled session: a list of small operations. A user stores only its position in the list.

use std::time::Duration;

use super::text::Text;

/// Most nested loops; a user stores one counter for each.
pub(crate) const LOOPS_NESTED_MAX: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StepId(pub(crate) u16);

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Connect(Box<Connect>),
    Send(Box<Send>),
    Expect {
        step: StepId,
        wanted: Wanted,
    },
    Think(Think),
    /// Draw a variable into a slot of the session.
    Draw {
        slot: usize,
        drawn: u32,
    },
    LoopBegin {
        depth: usize,
    },
    /// Go back to `begin` this many times; `None` repeats until the load ends.
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
    /// Stay connected for this long; `None` stays until the load ends.
    Stay(Option<Duration>),
}

#[derive(Clone, Debug)]
pub(crate) struct Connect {
    pub(crate) step: StepId,
    pub(crate) path: Text,
    /// Whole header lines.
    pub(crate) headers: Text,
    /// Whether the headers have a `Cookie`, which replaces the cookies of the user.
    pub(crate) has_own_cookie: bool,
    pub(crate) serializer: Serializer,
    /// The heartbeat interval; `None` sends no heartbeats.
    pub(crate) heartbeat: Option<Duration>,
}

/// The encoding of messages on a websocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serializer {
    /// Unknown messages.
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
    /// Whether it is a broadcast to its audience.
    pub(crate) is_broadcast: bool,
    pub(crate) effect: Effect,
}

/// The effect of a message on an audience of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Nothing,
    /// The sender joins the audience when the server replies.
    Joins(u8),
    /// The sender leaves the audience now.
    Leaves(u8),
    /// It is a broadcast to the audience.
    Addresses(u8),
}

#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// The text is sent unchanged.
    Raw { text: Text, is_binary: bool },
    /// A Phoenix message; it gets its ref when it is sent.
    Push {
        join_ref: u32,
        /// Whether this message is the join.
        is_join: bool,
        topic: Text,
        event: Text,
        payload: Text,
    },
}

impl Message {
    /// Whether the text contains `${now}`, so that receivers can measure the delay.
    pub(crate) fn is_timed(&self) -> bool {
        match self {
            Message::Raw { text, .. } => text.is_timed(),
            Message::Push { payload, .. } => payload.is_timed(),
        }
    }
}

/// The message that completes a step.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// No message: the step is done when its message is sent.
    Nothing,
    /// The reply to this message, with the status "ok".
    Reply,
    Any,
    /// A message with this text in it.
    Containing(Text),
}

#[derive(Clone, Debug)]
pub(crate) struct Think {
    pub(crate) time: ThinkTime,
    /// Count from the reply to the previous step instead of from when it was due.
    pub(crate) is_after_reply: bool,
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
    /// Whether the headers have a `Cookie`, which replaces the cookies of the user.
    pub(crate) has_own_cookie: bool,
    pub(crate) body: Text,
    /// The expected status; `None` accepts any below 400.
    pub(crate) status: Option<u16>,
    pub(crate) accepts_any_status: bool,
    pub(crate) contains: Option<Text>,
    /// JSON pointers into the response body, and the index of the saved value.
    pub(crate) save: Vec<(String, usize)>,
    pub(crate) timeout: Option<Duration>,
}

/// Repeat a request.
#[derive(Clone, Debug)]
pub(crate) struct Poll {
    pub(crate) request: Http,
    /// Until a response contains this text.
    pub(crate) until: Option<Text>,
    /// Until this time has passed.
    pub(crate) period: Option<Duration>,
}
