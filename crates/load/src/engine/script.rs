//! The parts of a session that send nothing and wait for nothing: variables, conditions, loops, measured groups,
//! and the use of answers.

use std::time::Duration;

use watchfire_types::{Instant, Rng};

use super::reports::Reports;
use super::{Share, User};
use crate::clock::monotonic;
use crate::failure::Failure;
use crate::sampling::{exponential, seed_for};
use crate::scenario::{
    Action, Answer, Condition, Content, Each, Found, Mark, Missing, Op, Scenario, Set, SetTo,
    StepId, Text, TextContext, ThinkTime, Value,
};
use crate::tally::Match;

/// The longest think time that a variable can ask for.
const THINK_TIME_MAX: Duration = Duration::from_secs(366 * 24 * 3600);
/// The part of an answer that is noted for a `dump`.
const DUMP_BYTES_MAX: usize = 4096;
/// Part of the seed of think times and random rows.
const CHOICES: u64 = u64::MAX;

/// The variables of a user.
#[derive(Clone, Default)]
pub(super) struct Values {
    slots: Box<[Value]>,
    /// How many times it has drawn random values.
    draws: u32,
}

impl Values {
    pub(super) fn new(slots: usize) -> Values {
        Values { slots: vec![Value::Undefined; slots].into(), draws: 0 }
    }
}

/// How many times an answer has made a user repeat a step, and begin again.
#[derive(Default)]
pub(super) struct Attempts {
    repeats: u32,
    restarts: u32,
}

/// When the open groups of steps of a user were due, and when they began.
#[derive(Default)]
pub(super) struct Groups(Vec<(Instant, Instant)>);

/// How a session goes on after an answer.
pub(super) enum Next {
    Step,
    /// At another step, after a pause.
    At(usize, Duration),
    End,
    EndOfLoad,
}

pub(super) struct Script<'a> {
    scenario: &'a Scenario,
    share: Share,
    rng: Rng,
    /// How many rows of each file were taken.
    rows_taken: Vec<u64>,
}

impl<'a> Script<'a> {
    pub(super) fn new(scenario: &'a Scenario, share: Share) -> Script<'a> {
        let rng = Rng::from_seed(seed_for(scenario.seed, share.index as u64, CHOICES));
        Script { scenario, share, rng, rows_taken: vec![0; scenario.rows.len()] }
    }

    pub(super) fn scenario(&self) -> &'a Scenario {
        self.scenario
    }

    pub(super) fn text_context<'b>(&'b self, user: &'b User) -> TextContext<'b> {
        self.text_context_at(user, self.time_of_messages(), Mark::Nothing)
    }

    /// The time that `${now}` has; zero if no text has it.
    pub(super) fn time_of_messages(&self) -> Duration {
        if self.scenario.is_timed { monotonic() } else { Duration::ZERO }
    }

    pub(super) fn text_context_at<'b>(
        &'b self,
        user: &'b User,
        now: Duration,
        mark: Mark,
    ) -> TextContext<'b> {
        TextContext {
            variables: &self.scenario.variables,
            seed: self.scenario.seed,
            user: u64::from(user.number),
            slots: user.memory.as_ref().map_or(&[][..], |memory| &memory.values.slots),
            undefined: self.scenario.sessions[user.progress.session()].undefined,
            now,
            mark,
        }
    }

    pub(super) fn text(&self, user: &User, text: &Text) -> String {
        text.to_string(&self.text_context(user))
    }

    fn value<'b>(&self, user: &'b User, slot: usize) -> &'b Value {
        let memory = user.memory.as_deref();
        memory.and_then(|memory| memory.values.slots.get(slot)).unwrap_or(&Value::Undefined)
    }

    /// The text of a variable; `None` if it was not set.
    fn value_text(&self, user: &User, slot: usize) -> Option<String> {
        let value = self.value(user, slot);
        (*value != Value::Undefined).then(|| self.text_context(user).text_of(value))
    }

    fn set_value(&self, user: &mut User, slot: usize, value: Value) {
        user.memory(self.scenario).values.slots[slot] = value;
    }

    pub(super) fn think_time(&mut self, user: &User, time: ThinkTime) -> Duration {
        match time {
            ThinkTime::Variable(slot) => {
                let seconds = self.value_text(user, slot).and_then(|text| text.trim().parse().ok());
                let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                time.unwrap_or_default().min(THINK_TIME_MAX)
            }
            ThinkTime::Fixed(time) => time,
            ThinkTime::Uniform(min, max) => min + (max - min).mul_f64(self.rng.fraction()),
            ThinkTime::Exponential(mean) => mean.mul_f64(exponential(&mut self.rng)),
        }
    }

    /// Does a step that sends nothing and waits for nothing. The user is at another position then.
    pub(super) fn step(
        &mut self,
        user: &mut User,
        op: &Op,
        is_over: bool,
        now: Instant,
        reports: &mut Reports<'_>,
    ) {
        let jump = match op {
            Op::LoopBegin { depth } => return user.progress.begin_loop(*depth),
            Op::LoopEnd { depth, begin, times } => {
                return user.progress.end_loop(*depth, *begin, *times, is_over);
            }
            Op::Set(set) => {
                self.set(user, set, reports);
                None
            }
            Op::If { condition, otherwise } => {
                // As in Tsung, a condition on a variable that was not set holds.
                let holds = self.holds(user, condition);
                if holds.is_none() {
                    reports.count("error_if_undef");
                }
                (!holds.unwrap_or(true)).then_some(*otherwise)
            }
            Op::CountEnd { slot, last, step, begin } => {
                self.counts_on(user, *slot, *step, last).then_some(*begin)
            }
            Op::RepeatEnd { slot, condition, begin, max } => {
                self.repeats(user, (*slot, *max), condition, reports).then_some(*begin)
            }
            Op::EachBegin(each) => {
                self.take_first(user, each, reports);
                None
            }
            Op::EachEnd { each, begin } => self.takes_next(user, each).then_some(*begin),
            Op::GroupBegin { depth } => {
                // The steps of a group are measured from when the first one is due.
                let times = (user.progress.due(), now);
                let Groups(groups) = &mut user.memory(self.scenario).groups;
                groups.truncate(*depth);
                groups.push(times);
                None
            }
            Op::GroupEnd { depth, step } => {
                let Groups(groups) = &mut user.memory(self.scenario).groups;
                if let Some((due, begun)) = groups.get(*depth).copied() {
                    groups.truncate(*depth);
                    reports.step(*step, due, begun, now);
                }
                None
            }
            _ => unreachable!("steps that send or wait are done by the engine"),
        };
        match jump {
            Some(position) => user.progress.go_to(position),
            None => user.progress.go_on(),
        }
    }

    fn set(&mut self, user: &mut User, set: &Set, reports: &mut Reports<'_>) {
        let values: Vec<Value> = match &set.to {
            SetTo::Drawn(first) => {
                let values = &mut user.memory(self.scenario).values;
                values.draws = values.draws.wrapping_add(1).max(1);
                let times = values.draws;
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
                let text = self.text(user, text);
                vec![Value::text(&text); set.slots.len()]
            }
            SetTo::Server => {
                let target = &self.scenario.targets[usize::from(user.connection.target())];
                vec![Value::text(target.host()), Value::text(target.port())]
            }
            SetTo::Json { from, path } => {
                let json = self.value_text(user, *from).unwrap_or_default();
                let found = match serde_json::from_str(&json) {
                    Ok(json) => path.find(&json),
                    Err(_) => {
                        reports.count("error_json_unparsable");
                        None
                    }
                };
                vec![found.unwrap_or_else(|| Value::text("")); set.slots.len()]
            }
        };
        for (slot, value) in set.slots.iter().zip(values) {
            self.set_value(user, *slot, value);
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
    fn holds(&self, user: &User, condition: &Condition) -> Option<bool> {
        let text = match (self.value(user, condition.slot), condition.element) {
            (Value::List(list), Some(element)) => list.get(element - 1)?.to_string(),
            _ => self.value_text(user, condition.slot)?,
        };
        Some(condition.holds(&text))
    }

    /// Counts a variable up; `false` at its end. A bound that is not a number ends the loop too.
    fn counts_on(&self, user: &mut User, slot: usize, step: i64, last: &Text) -> bool {
        let number = |text: Option<String>| text.and_then(|text| text.trim().parse::<i64>().ok());
        let count = number(self.value_text(user, slot));
        let last = number(Some(self.text(user, last)));
        let Some((count, _)) = count.zip(last).filter(|(count, last)| count < last) else {
            return false;
        };
        self.set_value(user, slot, Value::Number(count.saturating_add(step)));
        true
    }

    fn repeats(
        &self,
        user: &mut User,
        (slot, max): (usize, u32),
        condition: &Condition,
        reports: &mut Reports<'_>,
    ) -> bool {
        let turns = match self.value(user, slot) {
            Value::Number(turns) => *turns,
            _ => 1,
        };
        if turns > i64::from(max) {
            reports.count("max_repeat");
            return false;
        }
        let Some(holds) = self.holds(user, condition) else {
            reports.count("error_repeat_undef");
            return false;
        };
        self.set_value(user, slot, Value::Number(turns + 1));
        holds
    }

    /// As in Tsung, the body of the loop runs once even if the list is empty.
    fn take_first(&self, user: &mut User, each: &Each, reports: &mut Reports<'_>) {
        let (element, next) = match self.value(user, each.list) {
            Value::List(list) => match each.element_of(list, 0) {
                Some(first) => (Value::text(first), 2),
                None => (Value::Undefined, 1),
            },
            Value::Undefined => {
                reports.count("error_foreach_undef");
                (Value::Undefined, 2)
            }
            value => (value.clone(), 2),
        };
        self.set_value(user, each.element, element);
        self.set_value(user, each.number, Value::Number(next));
    }

    fn takes_next(&self, user: &mut User, each: &Each) -> bool {
        let Value::Number(number) = *self.value(user, each.number) else { return false };
        // A session may save any number of an answer in this variable.
        let element = match (self.value(user, each.list), usize::try_from(number.saturating_sub(1)))
        {
            (Value::List(list), Ok(at)) => each.element_of(list, at).map(Value::text),
            _ => None,
        };
        let Some(element) = element else { return false };
        self.set_value(user, each.element, element);
        self.set_value(user, each.number, Value::Number(number + 1));
        true
    }

    /// Records the groups that a failed user has begun, with the time until now.
    pub(super) fn measure_groups_in_vain(
        &self,
        user: &mut User,
        now: Instant,
        reports: &mut Reports<'_>,
    ) {
        let Some(memory) = &mut user.memory else { return };
        let Groups(groups) = std::mem::take(&mut memory.groups);
        let ops = &self.scenario.sessions[user.progress.session()].ops;
        // The end of each open group follows, the innermost first.
        let mut open = groups.len();
        for op in ops.iter().skip(user.progress.position()).take_while(|_| !groups.is_empty()) {
            if let Op::GroupEnd { depth, step } = op
                && *depth < open
            {
                let (due, begun) = groups[*depth];
                reports.unanswered(*step, due, begun, now);
                open = *depth;
            }
        }
    }

    /// Saves the values that the session keeps from each message.
    pub(super) fn keep_values(&self, user: &mut User, message: &[u8]) {
        let keeps = &self.scenario.sessions[user.progress.session()].keeps;
        if keeps.is_empty() {
            return;
        }
        let content = Content::new(b"", message);
        for keep in keeps {
            if let Found::Value(value) = keep.find.find(&content) {
                self.set_value(user, keep.slot, value);
            }
        }
    }

    /// Saves the values of an answer.
    pub(super) fn save(
        &self,
        user: &mut User,
        answer: &Answer,
        content: &Content<'_>,
        reports: &mut Reports<'_>,
    ) -> Result<(), Failure> {
        for save in &answer.saves {
            let value = match (save.find.find(content), save.missing) {
                (Found::Value(value), _) => value,
                (Found::Nothing | Found::Unreadable, Missing::Fails) => {
                    return Err(Failure::NothingToSave);
                }
                (Found::Unreadable, _) => {
                    reports.count("error_json_unparsable");
                    continue;
                }
                (Found::Nothing, Missing::Empties) => Value::text(""),
                (Found::Nothing, Missing::Unsets) => Value::Undefined,
                (Found::Nothing, Missing::Keeps) => match self.value(user, save.slot) {
                    Value::Undefined => Value::text(""),
                    _ => continue,
                },
            };
            self.set_value(user, save.slot, value);
        }
        Ok(())
    }

    /// Compares an answer with all patterns, up to the first one that changes how the session goes
    /// on.
    pub(super) fn check(
        &self,
        user: &mut User,
        answer: &Answer,
        content: &Content<'_>,
        reports: &mut Reports<'_>,
    ) -> Next {
        for check in &answer.checks {
            let is_match = check.is_match(content, &self.text_context(user));
            reports.count(if is_match { "match" } else { "nomatch" });
            if is_match != check.acts_on_match {
                // The limits are for attempts in a row.
                match check.action {
                    Action::Repeat { .. } => user.memory(self.scenario).attempts.repeats = 0,
                    Action::Restart { .. } => user.memory(self.scenario).attempts.restarts = 0,
                    _ => {}
                }
                continue;
            }
            match check.action {
                Action::Continue => {}
                Action::Log => self.note_match(user, &check.name, None, reports),
                Action::Dump => self.note_match(user, &check.name, Some(content.whole()), reports),
                Action::Abort => {
                    reports.count("match_stop");
                    return Next::End;
                }
                Action::AbortLoad => {
                    reports.count("match_stop");
                    return Next::EndOfLoad;
                }
                Action::Restart { max } => return self.restart(user, max, reports),
                Action::Repeat { back, max, pause } => {
                    reports.count("match_loop");
                    return self.repeat_step(user, back, max, pause);
                }
            }
        }
        Next::Step
    }

    fn restart(&self, user: &mut User, max: u32, reports: &mut Reports<'_>) -> Next {
        let attempts = &mut user.memory(self.scenario).attempts;
        if attempts.restarts >= max {
            reports.count("match_restart_abort");
            return Next::End;
        }
        attempts.restarts += 1;
        reports.count("match_restart");
        Next::At(0, Duration::ZERO)
    }

    fn repeat_step(&self, user: &mut User, back: u16, max: u32, pause: Duration) -> Next {
        let attempts = &mut user.memory(self.scenario).attempts;
        if attempts.repeats >= max {
            attempts.repeats = 0;
            return Next::Step;
        }
        attempts.repeats += 1;
        Next::At(user.progress.position().saturating_sub(usize::from(back)), pause)
    }

    fn note_match(&self, user: &User, name: &str, text: Option<&[u8]>, reports: &mut Reports<'_>) {
        let step = user.progress.step(self.scenario);
        let step_name = |StepId(step)| self.scenario.steps[usize::from(step)].clone();
        let text = text.map(|text| {
            String::from_utf8_lossy(&text[..text.len().min(DUMP_BYTES_MAX)]).into_owned()
        });
        reports.note_match(Match {
            name: name.to_owned(),
            user: user.number,
            session: user.progress.session() as u16,
            step: step.map(step_name).unwrap_or_default(),
            text,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::connecting;

    /// How often the user thinks in a session with these steps, and the events that were counted.
    fn thoughts(steps: &str) -> (usize, Vec<String>) {
        let scenario = connecting(steps);
        let mut reports = Reports::new(&scenario);
        let mut script = Script::new(&scenario, Share { index: 0, count: 1 });
        let mut user = User::new(0, 0, 0, Instant::ZERO);
        user.progress.go_on();
        let mut thoughts = 0;
        loop {
            match user.progress.op(&scenario) {
                Some(Op::Think(_)) => {
                    thoughts += 1;
                    user.progress.go_on();
                }
                Some(Op::Disconnect { .. }) | None => break,
                Some(op) => script.step(&mut user, op, false, Instant::ZERO, &mut reports),
            }
        }
        (thoughts, reports.take().counters.into_keys().collect())
    }

    #[test]
    fn loops_repeat_their_steps() {
        let inner = "{ loop = { times = 2, steps = [{ think = '1s' }] } }";
        assert_eq!(thoughts(inner), (2, Vec::new()));
        let outer = format!("{{ loop = {{ times = 3, steps = [{inner}, {{ think = '1s' }}] }} }}");
        assert_eq!(thoughts(&outer), (9, Vec::new()));
    }

    #[test]
    fn an_answer_repeats_a_step_and_restarts_a_session_at_most_so_often_in_a_row() {
        let scenario = connecting("");
        let mut reports = Reports::new(&scenario);
        let script = Script::new(&scenario, Share { index: 0, count: 1 });
        let mut user = User::new(0, 0, 0, Instant::ZERO);
        user.progress.go_to(5);
        let pause = Duration::from_secs(1);
        let positions = [(); 4].map(|()| match script.repeat_step(&mut user, 2, 2, pause) {
            Next::At(position, waited) if waited == pause => Some(position),
            _ => None,
        });
        assert_eq!(positions, [Some(3), Some(3), None, Some(3)]);
        let restarts = [(); 3].map(|()| script.restart(&mut user, 2, &mut reports));
        assert!(matches!(restarts, [Next::At(0, _), Next::At(0, _), Next::End]));
    }
}
