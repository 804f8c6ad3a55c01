//! Compiles sessions of any format into operations.

mod requests;

use std::time::Duration;

use super::answer::Answer;
use super::program::{
    ChangeProtocol, Condition, Connect, Each, Effect, LOOPS_NESTED_MAX, Message, Op, Rate, Send,
    Serializer, Set, SetTo, StepId, Think, Wanted,
};
use super::text::{Place, Slots, Text, Variables};
use super::{RECOVERED, Reconnect, Session};

/// Most steps with a name of their own.
const STEPS_MAX: usize = 1000;
/// Most operations of one session.
const OPS_MAX: usize = 60_000;
/// Most loops and conditions within each other: the reader of a file calls itself for each.
const BLOCKS_NESTED_MAX: usize = 64;
/// Most measured groups of steps within each other.
const GROUPS_NESTED_MAX: usize = 8;

/// Most pauses before attempts to connect again.
const PAUSES_MAX: usize = 100;

/// Compiles one session. Errors name the problem; the caller adds the position.
pub(super) struct Compiler<'a> {
    steps: &'a mut Vec<String>,
    variables: &'a Variables,
    ops: Vec<Op>,
    /// The start of each open loop or condition, and the state of the connection there.
    blocks: Vec<(usize, bool, Serializer)>,
    /// The open loops that count in the record of the user.
    loops: usize,
    groups: usize,
    /// The use of the answer to the next step.
    answer: Answer,
    /// Whether exactly one other user receives the next message.
    is_delivered: bool,
    /// Whether receivers check the order of the next message.
    is_in_order: bool,
    /// Whether the connection that was kept for each protocol is an open websocket.
    kept_open: [bool; 2],
    /// The topics joined so far; the index of a topic decides its join_ref.
    topics: Vec<String>,
    serializer: Serializer,
    is_open: bool,
    /// Whether a poll waits beside the steps.
    polls_in_background: bool,
    reconnect: Option<Reconnect>,
    slots: Slots,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(
        steps: &'a mut Vec<String>,
        variables: &'a Variables,
        slots: Slots,
    ) -> Compiler<'a> {
        Compiler {
            steps,
            variables,
            slots,
            ops: Vec::new(),
            blocks: Vec::new(),
            loops: 0,
            groups: 0,
            answer: Answer::default(),
            is_delivered: false,
            is_in_order: false,
            kept_open: [false; 2],
            topics: Vec::new(),
            serializer: Serializer::Raw,
            is_open: false,
            polls_in_background: false,
            reconnect: None,
        }
    }

    /// Users connect again after these pauses when their connection breaks.
    pub(super) fn reconnect(&mut self, pauses: Vec<Duration>) -> Result<(), String> {
        if !self.ops.iter().any(|op| matches!(op, Op::Connect(_))) {
            return Err("needs a connect".to_owned());
        }
        if self.polls_in_background {
            return Err("a session with a poll beside its other steps cannot reconnect".to_owned());
        }
        if pauses.len() > PAUSES_MAX {
            return Err(format!("at most {PAUSES_MAX} pauses"));
        }
        let step = self.step("return")?;
        self.reconnect = Some(Reconnect { pauses, step });
        Ok(())
    }

    pub(super) fn text(&self, text: &str, place: Place) -> Result<Text, String> {
        Text::parse(text, place, self.variables, &self.slots)
    }

    /// The slot of a variable.
    pub(super) fn slot(&self, name: &str) -> Result<usize, String> {
        self.slots.find(name).ok_or_else(|| format!("unknown variable {name}"))
    }

    /// Uses the answer to the next step.
    pub(super) fn use_answer(&mut self, answer: Answer) {
        self.answer = answer;
    }

    /// Exactly one other user receives the next message.
    pub(super) fn note_delivered(&mut self, is_delivered: bool) {
        self.is_delivered = is_delivered;
    }

    /// Receivers check the order of the next message.
    pub(super) fn note_in_order(&mut self, is_in_order: bool) {
        self.is_in_order = is_in_order;
    }

    /// The text of a request's body. Its type decides how values are escaped in it.
    pub(super) fn body(&self, body: &str, content_type: &str) -> Result<Text, String> {
        let content_type = content_type.split(';').next().unwrap_or_default().trim();
        let is_form = content_type.eq_ignore_ascii_case("application/x-www-form-urlencoded");
        self.text(body, if is_form { Place::Form } else { Place::of_message(body) })
    }

    /// Sets variables of the session.
    pub(super) fn set(&mut self, slots: Vec<usize>, to: SetTo) -> Result<(), String> {
        self.push_op(Op::Set(Box::new(Set { slots, to })))
    }

    pub(super) fn connect(
        &mut self,
        name: Option<&str>,
        path: &str,
        headers: &[(String, String)],
        serializer: Serializer,
        heartbeat: Option<Duration>,
    ) -> Result<(), String> {
        if self.is_open {
            return Err("the websocket is already open; disconnect first".into());
        }
        let path = self.path(path)?;
        let headers = self.headers(headers)?;
        let step = self.step(name.unwrap_or("connect"))?;
        self.is_open = true;
        self.serializer = serializer;
        let answer = std::mem::take(&mut self.answer);
        // Audiences are known after all sessions are compiled.
        let audience = None;
        let connect = Connect { step, path, headers, serializer, heartbeat, audience, answer };
        self.push_op(Op::Connect(Box::new(connect)))
    }

    pub(super) fn join(
        &mut self,
        name: Option<&str>,
        topic: &str,
        payload: &str,
    ) -> Result<(), String> {
        self.needs_serializer("join")?;
        if !self.topics.iter().any(|known| known == topic) {
            self.topics.push(topic.to_owned());
        }
        self.phoenix(name.unwrap_or("join"), topic, "phx_join", payload, Wanted::Reply, false)
    }

    pub(super) fn push(
        &mut self,
        name: Option<&str>,
        topic: &str,
        event: &str,
        payload: &str,
        wanted: Wanted,
        is_broadcast: bool,
    ) -> Result<(), String> {
        self.needs_serializer("push")?;
        if is_broadcast && self.text(topic, Place::Plain)?.as_literal().is_none() {
            return Err(
                "the topic of a broadcast must be the same for all users, without variables".into(),
            );
        }
        let default = format!("push {event}");
        self.phoenix(name.unwrap_or(&default), topic, event, payload, wanted, is_broadcast)
    }

    pub(super) fn leave(&mut self, name: Option<&str>, topic: &str) -> Result<(), String> {
        self.needs_serializer("leave")?;
        self.phoenix(name.unwrap_or("leave"), topic, "phx_leave", "{}", Wanted::Reply, false)
    }

    fn phoenix(
        &mut self,
        name: &str,
        topic: &str,
        event: &str,
        payload: &str,
        wanted: Wanted,
        is_broadcast: bool,
    ) -> Result<(), String> {
        let is_join = event == "phx_join";
        let index = self.topics.iter().position(|known| known == topic);
        let index = index.ok_or_else(|| format!("{topic:?} is not joined before this step"))?;
        let message = Message::Push {
            join_ref: index as u32 + 1,
            is_join,
            topic: self.text(&escaped(topic), Place::JsonString)?,
            event: self.text(&escaped(event), Place::JsonString)?,
            payload: self.text(payload, Place::Json)?,
        };
        self.push_send(name, message, wanted, is_broadcast)
    }

    pub(super) fn send(
        &mut self,
        name: Option<&str>,
        text: &str,
        is_binary: bool,
        wanted: Wanted,
        is_broadcast: bool,
    ) -> Result<(), String> {
        let text = self.text(text, Place::of_message(text))?;
        self.send_text(name, text, is_binary, wanted, is_broadcast)
    }

    pub(super) fn send_text(
        &mut self,
        name: Option<&str>,
        text: Text,
        is_binary: bool,
        wanted: Wanted,
        is_broadcast: bool,
    ) -> Result<(), String> {
        self.needs_open("send")?;
        if self.serializer == Serializer::Events {
            return Err("an event stream carries no messages to the server".into());
        }
        let message = Message::Raw { text, is_binary };
        self.push_send(name.unwrap_or("send"), message, wanted, is_broadcast)
    }

    fn push_send(
        &mut self,
        name: &str,
        message: Message,
        wanted: Wanted,
        is_broadcast: bool,
    ) -> Result<(), String> {
        // A receiver counts each `${now}` that it finds.
        let is_timed = message.times() == 1;
        if is_broadcast && !is_timed {
            return Err(
                "a broadcast needs ${now} in its text, once, so that its delay can be measured"
                    .into(),
            );
        }
        let step = self.step(name)?;
        // Audiences are known after all sessions are compiled.
        let effect = Effect::Nothing;
        let answer = std::mem::take(&mut self.answer);
        let is_delivered = std::mem::take(&mut self.is_delivered);
        if is_delivered && !(is_timed && matches!(wanted, Wanted::Reply)) {
            return Err("delivered needs a reply, and ${now} in the payload, once".into());
        }
        let is_in_order = std::mem::take(&mut self.is_in_order);
        if is_in_order && (!is_timed || is_broadcast || is_delivered) {
            return Err(
                "in_order needs ${now} in the text, once, and neither broadcast nor delivered"
                    .into(),
            );
        }
        if is_in_order {
            self.step(RECOVERED)?;
        }
        self.push_op(Op::Send(Box::new(Send {
            step,
            message,
            wanted,
            is_broadcast,
            is_delivered,
            is_in_order,
            effect,
            answer,
        })))
    }

    pub(super) fn expect(&mut self, name: Option<&str>, wanted: Wanted) -> Result<(), String> {
        if !self.polls_in_background {
            self.needs_open("expect")?;
        }
        let step = self.step(name.unwrap_or("expect"))?;
        let answer = std::mem::take(&mut self.answer);
        self.push_op(Op::Expect { step, wanted, answer })
    }

    pub(super) fn think(&mut self, think: Think) -> Result<(), String> {
        self.push_op(Op::Think(think))
    }

    pub(super) fn stay(&mut self, period: Option<Duration>) -> Result<(), String> {
        self.push_op(Op::Stay(period))
    }

    /// Begins a loop or a condition. Its end must find the websocket in the same state.
    fn begin_block(&mut self) -> Result<(), String> {
        if self.blocks.len() == BLOCKS_NESTED_MAX {
            return Err(format!(
                "too many nested loops and conditions: at most {BLOCKS_NESTED_MAX} are allowed"
            ));
        }
        self.blocks.push((self.ops.len(), self.is_open, self.serializer));
        Ok(())
    }

    /// Ends the block that was begun last, and returns where it begins.
    fn end_block(&mut self) -> Result<usize, String> {
        let (begin, is_open, serializer) = self.blocks.pop().expect("each block was begun");
        if self.ops.len() == begin {
            return Err("a loop needs steps".into());
        }
        if (self.is_open, self.serializer) != (is_open, serializer) {
            return Err(
                "the websocket must be in the same state at the start and at the end of a \
                        loop or a condition"
                    .into(),
            );
        }
        Ok(begin)
    }

    pub(super) fn loop_begin(&mut self) -> Result<(), String> {
        let depth = self.loops;
        if depth == LOOPS_NESTED_MAX {
            return Err(format!("too many nested loops: at most {LOOPS_NESTED_MAX} are allowed"));
        }
        self.push_op(Op::LoopBegin { depth })?;
        self.loops += 1;
        self.begin_block()
    }

    pub(super) fn loop_end(&mut self, times: Option<u32>) -> Result<(), String> {
        let begin = self.end_block()?;
        if times == Some(0) {
            return Err("times must be at least 1".into());
        }
        self.loops -= 1;
        self.push_op(Op::LoopEnd { depth: self.loops, begin, times })
    }

    /// Begins a loop in which a variable counts from `first`.
    pub(super) fn count_begin(&mut self, slot: usize, first: SetTo) -> Result<(), String> {
        self.set(vec![slot], first)?;
        self.begin_block()
    }

    pub(super) fn count_end(&mut self, slot: usize, last: Text, step: i64) -> Result<(), String> {
        let begin = self.end_block()?;
        self.push_op(Op::CountEnd { slot, last, step, begin })
    }

    pub(super) fn repeat_begin(&mut self) -> Result<(), String> {
        self.begin_block()
    }

    pub(super) fn repeat_end(
        &mut self,
        slot: usize,
        condition: Condition,
        max: u32,
    ) -> Result<(), String> {
        let begin = self.end_block()?;
        self.push_op(Op::RepeatEnd { slot, condition: Box::new(condition), begin, max })
    }

    pub(super) fn each_begin(&mut self, each: Each) -> Result<(), String> {
        self.push_op(Op::EachBegin(Box::new(each)))?;
        self.begin_block()
    }

    pub(super) fn each_end(&mut self, each: Each) -> Result<(), String> {
        let begin = self.end_block()?;
        self.push_op(Op::EachEnd { each: Box::new(each), begin })
    }

    pub(super) fn if_begin(&mut self, condition: Condition) -> Result<(), String> {
        self.push_op(Op::If { condition: Box::new(condition), otherwise: usize::MAX })?;
        self.begin_block()
    }

    pub(super) fn if_end(&mut self) -> Result<(), String> {
        let begin = self.end_block()?;
        let end = self.ops.len();
        match &mut self.ops[begin - 1] {
            Op::If { otherwise, .. } => *otherwise = end,
            _ => unreachable!("the block of a condition follows the condition"),
        }
        Ok(())
    }

    /// Begins a group of steps that is measured as a whole.
    pub(super) fn group_begin(&mut self) -> Result<(), String> {
        if self.groups == GROUPS_NESTED_MAX {
            return Err(format!(
                "too many nested transactions: at most {GROUPS_NESTED_MAX} are allowed"
            ));
        }
        self.push_op(Op::GroupBegin { depth: self.groups })?;
        self.groups += 1;
        Ok(())
    }

    pub(super) fn group_end(&mut self, name: &str) -> Result<(), String> {
        self.groups -= 1;
        let step = self.step(name)?;
        self.push_op(Op::GroupEnd { depth: self.groups, step })
    }

    pub(super) fn meet(&mut self) -> Result<(), String> {
        self.push_op(Op::Meet)
    }

    pub(super) fn listen(&mut self) -> Result<(), String> {
        self.needs_open("wait_bidi")?;
        self.push_op(Op::Listen)
    }

    pub(super) fn limit_rate(&mut self, rate: Rate) -> Result<(), String> {
        self.push_op(Op::LimitRate(rate))
    }

    pub(super) fn abort(&mut self, is_whole_load: bool) -> Result<(), String> {
        self.push_op(Op::Abort { is_whole_load })
    }

    pub(super) fn change_protocol(&mut self, change: ChangeProtocol) -> Result<(), String> {
        self.kept_open[usize::from(change.from)] = change.stores && self.is_open;
        let kept = std::mem::take(&mut self.kept_open[usize::from(change.to)]);
        self.is_open = change.restores && kept;
        self.serializer = Serializer::Raw;
        self.push_op(Op::ChangeProtocol(change))
    }

    pub(super) fn disconnect(&mut self, name: Option<&str>, is_abrupt: bool) -> Result<(), String> {
        self.needs_open("disconnect")?;
        self.is_open = false;
        let is_abrupt = is_abrupt || self.serializer == Serializer::Events;
        self.serializer = Serializer::Raw;
        let step = Some(self.step(name.unwrap_or("disconnect"))?);
        self.push_op(Op::Disconnect { step, is_abrupt })
    }

    fn step(&mut self, name: &str) -> Result<StepId, String> {
        let known = self.steps.iter().position(|known| known == name);
        let index = known.unwrap_or(self.steps.len());
        if index == STEPS_MAX {
            return Err(format!("more than {STEPS_MAX} different steps"));
        }
        if known.is_none() {
            self.steps.push(name.to_owned());
        }
        Ok(StepId(index as u16))
    }

    fn needs_open(&self, step_name: &str) -> Result<(), String> {
        if self.is_open { Ok(()) } else { Err(format!("{step_name} needs a connect before it")) }
    }

    fn needs_serializer(&self, step_name: &str) -> Result<(), String> {
        self.needs_open(step_name)?;
        match self.serializer {
            Serializer::Raw | Serializer::Events => {
                Err(format!("{step_name} needs a connect with a Phoenix serializer before it"))
            }
            Serializer::V1 | Serializer::V2 => Ok(()),
        }
    }

    fn push_op(&mut self, op: Op) -> Result<(), String> {
        if self.ops.len() >= OPS_MAX {
            return Err(format!("more than {OPS_MAX} steps"));
        }
        self.ops.push(op);
        Ok(())
    }

    /// The session. A user that is still connected disconnects at its end.
    pub(super) fn finish(mut self, weight: f64, keeps_cookies: bool) -> Session {
        if self.is_open {
            let is_abrupt = self.serializer == Serializer::Events;
            self.ops.push(Op::Disconnect { step: None, is_abrupt });
        }
        let slots = self.slots.names.len();
        let undefined = if self.slots.is_tsung { "undefined" } else { "" };
        let (ops, reconnect) = (self.ops, self.reconnect);
        let (keeps, server) = (Vec::new(), None);
        Session { weight, ops, slots, undefined, keeps_cookies, reconnect, keeps, server }
    }
}

fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
