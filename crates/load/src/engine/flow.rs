//! Steps that send nothing: variables, conditions, loops, measured groups, and changes of the
//! protocol.

use std::time::Duration;

use rustix::event::epoll;
use watchfire_types::Instant;

use super::Engine;
use super::script::Turn;
use super::user::{Connection, Kept, Memory, Waiting};
use crate::scenario::{ChangeProtocol, Condition, Each, Op, Rate, Set, SetTo, StepId, Text, Value};

/// Waiting users go on when no other has come for this long, as in Tsung.
const MEETING_TIMEOUT: Duration = Duration::from_secs(60);

/// The users that wait for each other.
#[derive(Default)]
pub(super) struct Meeting {
    /// The slot and the number of each.
    users: Vec<(usize, u32)>,
    last_came_at: Instant,
}

impl<'a> Engine<'a> {
    /// The memory of a user, which is made when it is needed first.
    pub(super) fn memory(&mut self, index: usize) -> &mut Memory {
        let user = &mut self.users[index];
        let values = self.scenario.sessions[usize::from(user.session)].slots;
        user.memory.get_or_insert_with(|| Box::new(Memory::new(values)))
    }

    /// Does a step that sends nothing and waits for no answer.
    pub(super) fn begin_flow(&mut self, index: usize, op: &'a Op) -> Turn {
        match op {
            Op::Meet => self.meet(index),
            Op::Listen => self.wait(index, Waiting::Message),
            Op::Set(set) => {
                self.set(index, set);
                self.next_op(index)
            }
            Op::If { condition, otherwise } => self.jump_unless(index, condition, *otherwise),
            Op::CountEnd { slot, last, step, begin } => {
                self.count_on(index, (*slot, *step), last, *begin)
            }
            Op::RepeatEnd { slot, condition, begin, max } => {
                self.repeat(index, (*slot, *max), condition, *begin)
            }
            Op::EachBegin(each) => self.first_of(index, each),
            Op::EachEnd { each, begin } => self.next_of(index, each, *begin),
            Op::GroupBegin { depth } => self.begin_group(index, *depth),
            Op::GroupEnd { depth, step } => self.end_group(index, *depth, *step),
            Op::ChangeProtocol(change) => self.change_protocol(index, *change),
            Op::LimitRate(rate) => {
                self.limit_rate(index, *rate);
                self.next_op(index)
            }
            Op::Abort { is_whole_load: true } => {
                self.end_load(index);
                Turn::Wait
            }
            Op::Abort { is_whole_load: false } => {
                self.end_session(index);
                Turn::Wait
            }
            _ => unreachable!("steps that send or pause are done by their own functions"),
        }
    }

    fn value(&self, index: usize, slot: usize) -> &Value {
        let memory = self.users[index].memory.as_deref();
        memory.and_then(|memory| memory.values.get(slot)).unwrap_or(&Value::Undefined)
    }

    /// The text of a variable; `None` if it was not set.
    pub(super) fn value_text(&self, index: usize, slot: usize) -> Option<String> {
        let value = self.value(index, slot);
        let text = || self.text_context(&self.users[index]).text_of(value);
        (*value != Value::Undefined).then(text)
    }

    fn text(&self, index: usize, text: &Text) -> String {
        text.to_string(&self.text_context(&self.users[index]))
    }

    fn set(&mut self, index: usize, set: &Set) {
        let values: Vec<Value> = match &set.to {
            SetTo::Drawn(first) => {
                let memory = self.memory(index);
                memory.draws = memory.draws.wrapping_add(1).max(1);
                let times = memory.draws;
                let draws = (*first..).take(set.slots.len());
                draws.map(|drawn| Value::Drawn { drawn, times }).collect()
            }
            SetTo::Row(columns) => {
                let row = match columns.is_random {
                    true => self.rng.between(0, self.scenario.rows[columns.file].len() as u64 - 1),
                    false => self.next_row(columns.file),
                };
                let row = self.scenario.rows[columns.file].row(row);
                columns.split(row).iter().map(|column| Value::text(column)).collect()
            }
            SetTo::Text(text) => {
                let text = self.text(index, text);
                vec![Value::text(&text); set.slots.len()]
            }
            SetTo::Server => {
                let target = &self.scenario.targets[usize::from(self.users[index].target)];
                vec![Value::text(target.host()), Value::text(target.port())]
            }
            SetTo::Json { from, path } => {
                let json = self.value_text(index, *from).unwrap_or_default();
                let found = match serde_json::from_str(&json) {
                    Ok(json) => path.find(&json),
                    Err(_) => {
                        self.tally.count("error_json_unparsable");
                        None
                    }
                };
                vec![found.unwrap_or_else(|| Value::text("")); set.slots.len()]
            }
        };
        let memory = self.memory(index);
        for (slot, value) in set.slots.iter().zip(values) {
            memory.values[*slot] = value;
        }
    }

    /// The number of the next row of a file. Workers take rows in turn.
    fn next_row(&mut self, file: usize) -> u64 {
        let taken = &mut self.rows_taken[file];
        let row = *taken * self.share.count as u64 + self.share.index as u64;
        *taken += 1;
        row
    }

    /// Whether a condition holds; `None` if its variable was not set.
    fn holds(&self, index: usize, condition: &Condition) -> Option<bool> {
        let text = match (self.value(index, condition.slot), condition.element) {
            (Value::List(list), Some(element)) => list.get(element - 1)?.to_string(),
            _ => self.value_text(index, condition.slot)?,
        };
        Some(condition.holds(&text))
    }

    /// As in Tsung, a condition on a variable that was not set holds.
    fn jump_unless(&mut self, index: usize, condition: &Condition, otherwise: usize) -> Turn {
        let holds = self.holds(index, condition);
        if holds.is_none() {
            self.tally.count("error_if_undef");
        }
        match holds.unwrap_or(true) {
            true => self.next_op(index),
            false => self.jump(index, otherwise),
        }
    }

    fn count_on(
        &mut self,
        index: usize,
        (slot, step): (usize, i64),
        last: &Text,
        begin: usize,
    ) -> Turn {
        let number = |text: Option<String>| text.and_then(|text| text.trim().parse::<i64>().ok());
        let count = number(self.value_text(index, slot));
        let last = number(Some(self.text(index, last)));
        match count.zip(last) {
            Some((count, last)) if count < last => {
                self.memory(index).values[slot] = Value::Number(count.saturating_add(step));
                self.jump(index, begin)
            }
            // A bound that is not a number ends the loop too.
            _ => self.next_op(index),
        }
    }

    fn repeat(
        &mut self,
        index: usize,
        (slot, max): (usize, u32),
        condition: &Condition,
        begin: usize,
    ) -> Turn {
        let turns = match self.value(index, slot) {
            Value::Number(turns) => *turns,
            _ => 1,
        };
        if turns > i64::from(max) {
            self.tally.count("max_repeat");
            return self.next_op(index);
        }
        let Some(holds) = self.holds(index, condition) else {
            self.tally.count("error_repeat_undef");
            return self.next_op(index);
        };
        self.memory(index).values[slot] = Value::Number(turns + 1);
        if holds { self.jump(index, begin) } else { self.next_op(index) }
    }

    /// As in Tsung, the body of the loop runs once even if the list is empty.
    fn first_of(&mut self, index: usize, each: &Each) -> Turn {
        let (element, next) = match self.value(index, each.list) {
            Value::List(list) => match each.element_of(list, 0) {
                Some(first) => (Value::text(first), 2),
                None => (Value::Undefined, 1),
            },
            Value::Undefined => {
                self.tally.count("error_foreach_undef");
                (Value::Undefined, 2)
            }
            value => (value.clone(), 2),
        };
        let memory = self.memory(index);
        memory.values[each.element] = element;
        memory.values[each.number] = Value::Number(next);
        self.next_op(index)
    }

    fn next_of(&mut self, index: usize, each: &Each, begin: usize) -> Turn {
        let number = match self.value(index, each.number) {
            Value::Number(number) => *number,
            _ => return self.next_op(index),
        };
        // A session may save any number of an answer in this variable.
        let element =
            match (self.value(index, each.list), usize::try_from(number.saturating_sub(1))) {
                (Value::List(list), Ok(at)) => each.element_of(list, at).map(Value::text),
                _ => None,
            };
        let Some(element) = element else { return self.next_op(index) };
        let memory = self.memory(index);
        memory.values[each.element] = element;
        memory.values[each.number] = Value::Number(number + 1);
        self.jump(index, begin)
    }

    fn jump(&mut self, index: usize, position: usize) -> Turn {
        self.users[index].position = position as u16;
        Turn::Next
    }

    /// The steps of a group begin: they are measured from when the first one is due.
    fn begin_group(&mut self, index: usize, depth: usize) -> Turn {
        let times = (self.users[index].due, self.clock.now());
        let groups = &mut self.memory(index).groups;
        groups.truncate(depth);
        groups.push(times);
        self.next_op(index)
    }

    fn end_group(&mut self, index: usize, depth: usize, step: StepId) -> Turn {
        let now = self.clock.now();
        let groups = &mut self.memory(index).groups;
        if let Some((due, begun)) = groups.get(depth).copied() {
            groups.truncate(depth);
            self.tally.step(step, due, begun, now);
        }
        self.next_op(index)
    }

    /// Records the groups that a failed user has begun, with the time until now.
    pub(super) fn measure_groups_in_vain(&mut self, index: usize) {
        let now = self.clock.now();
        let user = &mut self.users[index];
        let Some(memory) = user.memory.as_mut().filter(|memory| !memory.groups.is_empty()) else {
            return;
        };
        let groups = std::mem::take(&mut memory.groups);
        let session = &self.scenario.sessions[usize::from(user.session)];
        // The end of each open group follows, the innermost first.
        let mut open = groups.len();
        for op in &session.ops[usize::from(user.position).min(session.ops.len())..] {
            if let Op::GroupEnd { depth, step } = op
                && *depth < open
            {
                let (due, begun) = groups[*depth];
                self.tally.unanswered(*step, now.since(due), now.since(begun));
                open = *depth;
            }
        }
    }

    /// Waits until enough users wait.
    fn meet(&mut self, index: usize) -> Turn {
        self.end_page(index);
        self.meeting.users.push((index, self.users[index].number));
        self.meeting.last_came_at = self.clock.now();
        self.users[index].waiting = Waiting::Others;
        // Workers do not talk to each other, so the users of each worker meet on their own.
        let enough = self.share.of(self.scenario.meeting_size).max(1);
        if self.meeting.users.len() as u64 >= enough {
            self.end_meeting();
        }
        Turn::Wait
    }

    /// Lets the users go on when nobody has come for a while.
    pub(super) fn check_meeting(&mut self, now: Instant) {
        let is_old = now.since(self.meeting.last_came_at) >= MEETING_TIMEOUT;
        if is_old && !self.meeting.users.is_empty() {
            self.tally.count("meeting_timeout");
            self.end_meeting();
        }
    }

    fn end_meeting(&mut self) {
        let now = self.clock.now();
        for (index, number) in std::mem::take(&mut self.meeting.users) {
            // A user may have ended since it came, and another one may have its slot.
            if self.has_user(index, number) && self.users[index].waiting == Waiting::Others {
                let user = &mut self.users[index];
                user.position += 1;
                (user.anchor, user.due) = (now, now);
                self.wake_at(index, now);
            }
        }
    }

    /// Continues with another protocol. Its connection may be one that was kept.
    fn change_protocol(&mut self, index: usize, change: ChangeProtocol) -> Turn {
        let number = self.users[index].number;
        match change.stores {
            true => self.keep_connection(index, change.from),
            false => self.drop_socket(index),
        }
        self.users[index].target = change.target;
        if change.restores
            && let Some(kept) = self.memory(index).kept[usize::from(change.to)].take()
        {
            self.restore_connection(index, kept);
        }
        if self.has_user(index, number) { self.next_op(index) } else { Turn::Wait }
    }

    fn keep_connection(&mut self, index: usize, protocol: u8) {
        let user = &mut self.users[index];
        let Some(socket) = user.socket.take() else { return self.drop_socket(index) };
        // An event of this socket has the same key as an event of the next one.
        let _ = epoll::delete(&self.epoll, &socket);
        let kept = Kept {
            socket,
            tls: user.tls.take(),
            connection: user.connection,
            inbox: user.inbox.take(),
            outbox: user.outbox.take(),
            target: user.target,
        };
        // The kept websocket still counts as connected.
        user.connection = Connection::None;
        self.drop_socket(index);
        let replaced = self.memory(index).kept[usize::from(protocol)].replace(kept);
        self.note_dropped(replaced);
    }

    fn restore_connection(&mut self, index: usize, kept: Kept) {
        let user = &mut self.users[index];
        user.socket = Some(kept.socket);
        user.tls = kept.tls;
        user.connection = kept.connection;
        user.inbox = kept.inbox;
        user.outbox = kept.outbox;
        user.target = kept.target;
        // Data that the server has sent meanwhile is reported now.
        self.watch(index);
    }

    /// Counts the kept websocket of a user as closed.
    pub(super) fn note_dropped(&mut self, kept: Option<Kept>) {
        let is_open = kept.is_some_and(|kept| kept.connection == Connection::Open);
        self.connected -= u64::from(is_open);
    }

    pub(super) fn limit_rate(&mut self, index: usize, rate: Rate) {
        let now = self.clock.now();
        self.memory(index).bucket = Some(Bucket::new(rate, now));
    }
}

/// The bytes that a user may receive now: a token bucket. It fills evenly, up to its burst.
pub(super) struct Bucket {
    rate: Rate,
    tokens: u64,
    filled_at: Instant,
    /// Whether the socket is left alone until there are tokens.
    pub(super) is_paused: bool,
}

impl Bucket {
    fn new(rate: Rate, now: Instant) -> Bucket {
        Bucket { rate, tokens: rate.burst_bytes, filled_at: now, is_paused: false }
    }

    /// How many bytes may be received.
    pub(super) fn available(&mut self, now: Instant) -> u64 {
        let nanos = u128::from(now.since(self.filled_at).as_nanos() as u64);
        let earned = nanos * u128::from(self.rate.bytes_per_second) / 1_000_000_000;
        // Without a whole byte the time stays, or frequent calls would never fill the bucket.
        if earned > 0 {
            let earned = u64::try_from(earned).unwrap_or(u64::MAX);
            self.tokens = self.tokens.saturating_add(earned).min(self.rate.burst_bytes);
            self.filled_at = now;
        }
        self.tokens
    }

    pub(super) fn take(&mut self, bytes: u64) {
        self.tokens = self.tokens.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fills_evenly_up_to_its_burst() {
        let rate = Rate { bytes_per_second: 1000, burst_bytes: 500 };
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut bucket = Bucket::new(rate, at(0));
        assert_eq!(bucket.available(at(0)), 500);
        bucket.take(500);
        assert_eq!(bucket.available(at(0)), 0);
        assert_eq!(bucket.available(at(100)), 100);
        bucket.take(40);
        assert_eq!(bucket.available(at(200)), 160);
        assert_eq!(bucket.available(at(5000)), 500);
    }
}
