//! A compiled session: a list of small operations. A user stores only its position in the list.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::answer::Answer;
use super::login::Login;
use super::pattern::Pattern;
use super::rows::Columns;
use super::text::Text;
use super::value::JsonPath;

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
        answer: Answer,
    },
    Think(Think),
    /// Wait until enough users wait here.
    Meet,
    /// Wait for a message of the server.
    Listen,
    /// Set variables.
    Set(Box<Set>),
    /// Continue at `otherwise` unless the condition holds.
    If {
        condition: Box<Condition>,
        otherwise: usize,
    },
    /// Count a variable up, and go back to `begin`, until it has reached the end.
    CountEnd {
        slot: usize,
        last: Text,
        step: i64,
        begin: usize,
    },
    /// Go back to `begin` while the condition holds, at most `max` times. The slot counts.
    RepeatEnd {
        slot: usize,
        condition: Box<Condition>,
        begin: usize,
        max: u32,
    },
    /// Take the first element of a list.
    EachBegin(Box<Each>),
    /// Take the next element of a list, and go back to `begin`, until there is none.
    EachEnd {
        each: Box<Each>,
        begin: usize,
    },
    /// The begin of a measured group of steps, and the depth of its nesting.
    GroupBegin {
        depth: usize,
    },
    GroupEnd {
        depth: usize,
        step: StepId,
    },
    ChangeProtocol(ChangeProtocol),
    /// Limit the bytes per second that the user receives.
    LimitRate(Rate),
    /// End the session, or the whole load.
    Abort {
        is_whole_load: bool,
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
    /// Poll until the session ends, beside the steps that follow.
    BackgroundPoll(Box<Poll>),
    /// Load the files of the web page that was loaded last.
    Files(Arc<Files>),
    /// Load a page from other users, and serve it.
    Page(PageVisit),
    Disconnect {
        step: Option<StepId>,
        /// Without a close frame.
        is_abrupt: bool,
    },
    /// Stay connected for this long; `None` stays until the load ends.
    Stay(Option<Duration>),
}

impl Op {
    /// The request that the operation sends, perhaps several times. A handshake is not one of them.
    pub(crate) fn request(&self) -> Option<&Http> {
        match self {
            Op::Http(http) => Some(http),
            Op::Poll(poll) | Op::BackgroundPoll(poll) => Some(&poll.request),
            Op::Files(files) => Some(&files.request),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Connect {
    pub(crate) step: StepId,
    pub(crate) path: Text,
    pub(crate) headers: Headers,
    pub(crate) serializer: Serializer,
    /// The heartbeat interval; `None` sends no heartbeats.
    pub(crate) heartbeat: Option<Duration>,
    /// The audience that the user of an event stream joins.
    pub(crate) audience: Option<u8>,
    pub(crate) answer: Answer,
}

/// The headers of a request that a scenario names.
#[derive(Clone, Debug)]
pub(crate) struct Headers {
    /// Whole header lines.
    pub(crate) lines: Text,
    /// Whether they have a `Cookie`, which replaces the cookies of the user.
    pub(crate) has_cookie: bool,
    /// Whether they have a `User-Agent`, which replaces the scenario's.
    pub(crate) has_user_agent: bool,
    /// Whether they have a `Host`, which replaces the server's.
    pub(crate) has_host: bool,
    /// Whether `Connection: close` is one of them. Then the user sends no further request on the connection.
    pub(crate) closes: bool,
}

/// The encoding of messages on a websocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Serializer {
    /// Unknown messages.
    Raw,
    /// Phoenix objects.
    V1,
    /// Phoenix arrays.
    V2,
    /// Server-sent events. The connection is no websocket, and carries nothing to the server.
    Events,
}

#[derive(Clone, Debug)]
pub(crate) struct Send {
    pub(crate) step: StepId,
    pub(crate) message: Message,
    pub(crate) wanted: Wanted,
    /// Whether it is a broadcast to its audience.
    pub(crate) is_broadcast: bool,
    /// Whether exactly one other user receives its `${now}`.
    pub(crate) is_delivered: bool,
    /// Whether receivers check the order of these messages.
    pub(crate) is_in_order: bool,
    pub(crate) effect: Effect,
    pub(crate) answer: Answer,
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
    /// How often the text contains `${now}`, from which receivers measure the delay.
    pub(crate) fn times(&self) -> usize {
        match self {
            Message::Raw { text, .. } => text.times(),
            Message::Push { payload, .. } => payload.times(),
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
    /// The text of a variable, in seconds.
    Variable(usize),
}

/// Sets variables of the session.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub(crate) slots: Vec<usize>,
    pub(crate) to: SetTo,
}

#[derive(Clone, Debug)]
pub(crate) enum SetTo {
    /// Random values: the variable with this index, and one more for each further slot.
    Drawn(u32),
    /// The columns of a row of a file.
    Row(Columns),
    Text(Text),
    /// The host and the port of the server.
    Server,
    /// A value in the JSON of another variable.
    Json {
        from: usize,
        path: JsonPath,
    },
}

/// A comparison of a variable with a text.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) slot: usize,
    /// An element of a list, from 1.
    pub(crate) element: Option<usize>,
    pub(crate) relation: Relation,
    pub(crate) operand: String,
    /// Whether the comparison must fail.
    pub(crate) is_negated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Equal,
    Unequal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Condition {
    /// Compares a value. Two texts are equal as they are written. Greater and less compare numbers,
    /// and do not hold for a text that is not a number.
    pub(crate) fn holds(&self, value: &str) -> bool {
        let numbers =
            || Some((value.trim().parse::<f64>().ok()?, self.operand.trim().parse().ok()?));
        let is_ordered = |wanted: fn(f64, f64) -> bool| {
            numbers().is_some_and(|(value, operand)| wanted(value, operand))
        };
        let holds = match self.relation {
            Relation::Equal => value == self.operand,
            Relation::Unequal => value != self.operand,
            Relation::Greater => is_ordered(|value, operand| value > operand),
            Relation::GreaterOrEqual => is_ordered(|value, operand| value >= operand),
            Relation::Less => is_ordered(|value, operand| value < operand),
            Relation::LessOrEqual => is_ordered(|value, operand| value <= operand),
        };
        holds != self.is_negated
    }
}

/// A loop over the elements of a list.
#[derive(Clone, Debug)]
pub(crate) struct Each {
    pub(crate) list: usize,
    pub(crate) element: usize,
    /// The variable with the number of the next element.
    pub(crate) number: usize,
    /// Only elements that match, or only those that do not.
    pub(crate) filter: Option<(Pattern, bool)>,
}

impl Each {
    /// An element that the loop takes, from 0.
    pub(crate) fn element_of<'a>(&self, list: &'a [Box<str>], at: usize) -> Option<&'a str> {
        let is_taken = |text: &&str| match &self.filter {
            None => true,
            Some((pattern, includes)) => pattern.is_match(text.as_bytes()) == *includes,
        };
        list.iter().map(|text| &**text).filter(is_taken).nth(at)
    }
}

/// Continue with another protocol, and usually another server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangeProtocol {
    /// The index of the old and the new protocol.
    pub(crate) from: u8,
    pub(crate) to: u8,
    pub(crate) target: u16,
    /// Keep the connection of the old protocol for later.
    pub(crate) stores: bool,
    /// Take the connection that was kept for the new one.
    pub(crate) restores: bool,
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) bytes_per_second: u64,
    /// The most bytes at once.
    pub(crate) burst_bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Http {
    pub(crate) step: StepId,
    pub(crate) method: String,
    /// A path, or a whole URL of a server of the scenario if it begins with a variable.
    pub(crate) path: Text,
    /// The server of this and of the following requests; `None` stays with the current one.
    pub(crate) target: Option<u16>,
    /// Whether the request is HTTP/1.0.
    pub(crate) is_old: bool,
    pub(crate) headers: Headers,
    /// Further cookies, such as `a=1; b=2`.
    pub(crate) cookies: Option<Text>,
    pub(crate) login: Option<Box<Login>>,
    pub(crate) body: Text,
    /// The expected status; `None` accepts any below 400.
    pub(crate) status: Option<u16>,
    pub(crate) accepts_any_status: bool,
    pub(crate) contains: Option<Text>,
    pub(crate) answer: Answer,
    pub(crate) timeout: Option<Duration>,
    /// Whether exactly one user receives the `${now}` of its body.
    pub(crate) is_delivered: bool,
    /// The step that loads the files of this web page.
    pub(crate) files: Option<Arc<Files>>,
}

/// The requests of the files that a web page names.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) request: Http,
    /// The path of the page.
    pub(crate) page: Text,
    /// Files that scripts load later count too if their paths begin with one of these texts.
    pub(crate) named: Vec<String>,
}

/// A step that loads a page from other users.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageVisit {
    pub(crate) step: StepId,
    /// The index of the page in the scenario.
    pub(crate) page: u16,
    pub(crate) join_ref: u32,
    /// Whether the user has the page already.
    pub(crate) has_it: bool,
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
