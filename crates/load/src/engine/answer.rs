//! The use of answers: saved values, and checks that decide how a session goes on.

use std::time::Duration;

use super::user::{NEVER, Waiting};
use super::{Engine, millis};
use crate::failure::Failure;
use crate::scenario::{Action, Answer, Content, Found, Missing, Value};
use crate::tally::Match;

/// The part of an answer that is noted for a `dump`.
const DUMP_BYTES_MAX: usize = 4096;

/// How a session goes on after an answer.
enum Next {
    Step,
    /// At another step, after a pause.
    At(u16, Duration),
    End,
    EndOfLoad,
}

impl<'a> Engine<'a> {
    /// Completes the current step with an answer.
    pub(super) fn complete_with(
        &mut self,
        index: usize,
        answer: &'a Answer,
        content: &Content<'_>,
    ) {
        if answer.is_unused() {
            return self.complete(index);
        }
        if let Err(failure) = self.save(index, answer, content) {
            return self.complete_with_error(index, failure);
        }
        let next = self.check(index, answer, content);
        if let Some(step) = self.step(index) {
            self.measure(index, step);
        }
        self.go_on(index, next);
    }

    fn save(
        &mut self,
        index: usize,
        answer: &Answer,
        content: &Content<'_>,
    ) -> Result<(), Failure> {
        for save in &answer.saves {
            let value = match (save.find.find(content), save.missing) {
                (Found::Value(value), _) => value,
                (Found::Nothing | Found::Unreadable, Missing::Fails) => {
                    return Err(Failure::NothingToSave);
                }
                (Found::Unreadable, _) => {
                    self.tally.count("error_json_unparsable");
                    continue;
                }
                (Found::Nothing, Missing::Empties) => Value::text(""),
                (Found::Nothing, Missing::Unsets) => Value::Undefined,
                (Found::Nothing, Missing::Keeps) => match &self.memory(index).values[save.slot] {
                    Value::Undefined => Value::text(""),
                    _ => continue,
                },
            };
            self.memory(index).values[save.slot] = value;
        }
        Ok(())
    }

    /// Compares an answer with all patterns, up to the first one that changes how the session goes
    /// on.
    fn check(&mut self, index: usize, answer: &Answer, content: &Content<'_>) -> Next {
        for check in &answer.checks {
            let is_match = check.is_match(content, &self.text_context(&self.users[index]));
            self.tally.count(if is_match { "match" } else { "nomatch" });
            if is_match != check.acts_on_match {
                // The limits are for attempts in a row.
                match check.action {
                    Action::Repeat { .. } => self.memory(index).repeats = 0,
                    Action::Restart { .. } => self.memory(index).restarts = 0,
                    _ => {}
                }
                continue;
            }
            match check.action {
                Action::Continue => {}
                Action::Log => self.note_match(index, &check.name, None),
                Action::Dump => self.note_match(index, &check.name, Some(content.whole())),
                Action::Abort => {
                    self.tally.count("match_stop");
                    return Next::End;
                }
                Action::AbortLoad => {
                    self.tally.count("match_stop");
                    return Next::EndOfLoad;
                }
                Action::Restart { max } => return self.restart(index, max),
                Action::Repeat { back, max, pause } => {
                    return self.repeat_step(index, back, max, pause);
                }
            }
        }
        Next::Step
    }

    fn restart(&mut self, index: usize, max: u32) -> Next {
        let memory = self.memory(index);
        if memory.restarts >= max {
            self.tally.count("match_restart_abort");
            return Next::End;
        }
        memory.restarts += 1;
        self.tally.count("match_restart");
        Next::At(0, Duration::ZERO)
    }

    fn repeat_step(&mut self, index: usize, back: u16, max: u32, pause: Duration) -> Next {
        self.tally.count("match_loop");
        let position = self.users[index].position;
        let memory = self.memory(index);
        if memory.repeats >= max {
            memory.repeats = 0;
            return Next::Step;
        }
        memory.repeats += 1;
        Next::At(position.saturating_sub(back), pause)
    }

    fn note_match(&mut self, index: usize, name: &str, text: Option<&[u8]>) {
        let user = &self.users[index];
        let step = self.step(index).map(|step| self.scenario.steps[usize::from(step.0)].clone());
        let text = text.map(|text| {
            String::from_utf8_lossy(&text[..text.len().min(DUMP_BYTES_MAX)]).into_owned()
        });
        self.tally.note_match(Match {
            name: name.to_owned(),
            user: user.number,
            session: user.session,
            step: step.unwrap_or_default(),
            text,
        });
    }

    fn go_on(&mut self, index: usize, next: Next) {
        match next {
            Next::Step => self.continue_session(index),
            Next::At(position, pause) => {
                let now = self.clock.now();
                let user = &mut self.users[index];
                user.waiting = Waiting::Nothing;
                user.times_out_at = NEVER;
                user.position = position;
                if pause.is_zero() {
                    return self.advance(index);
                }
                let at = now + pause;
                // The scenario asks for the pause, so it is no delay of the step that follows.
                (user.anchor, user.due) = (at, at);
                self.wake_at(index, at);
            }
            Next::End => self.end_session(index),
            Next::EndOfLoad => self.end_load(index),
        }
    }

    /// Ends the session of a user: it has reached its end, or one of its steps says so.
    pub(super) fn end_session(&mut self, index: usize) {
        self.tally.counts.finished += 1;
        self.end_page(index);
        let lasted = millis(self.clock.now()).saturating_sub(self.users[index].arrived_at);
        self.tally.stages.session.record(Duration::from_millis(lasted.into()));
        self.remove(index);
    }

    /// Ends the load, because a step of this user says so.
    pub(super) fn end_load(&mut self, index: usize) {
        self.is_aborted = true;
        self.end_session(index);
    }
}
