//! Texts with variables in them, such as `{"user": ${id}}`.

mod escape;

use std::num::NonZeroU64;
use std::time::Duration;

use memchr::memmem;
use watchfire_types::Rng;

use super::value::Value;
use crate::sampling::seed_for;

pub(crate) use escape::Place;
use escape::{Escape, Quotes};

/// A text, split at its variables.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text(Vec<Piece>);

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Literal(Box<str>),
    /// Bytes that are not text, such as a compressed body.
    Bytes(Box<[u8]>),
    Variable(Variable, Escape),
}

/// The meaning of a `${name}`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Variable {
    /// `${user}`: the number of the user, from 0.
    User,
    /// `${id}`: the number of the user, from 1.
    Id,
    /// `${user / N}`, rounded down.
    UserDivided(NonZeroU64),
    /// `${user % N}`: the remainder of the division.
    UserRemainder(NonZeroU64),
    /// `${now}`: the time of sending, so that receivers can measure the delay.
    Now,
    Drawn(usize),
    /// A value of the session.
    Slot(usize),
}

impl Variable {
    /// The number of the user divided by a number, or the remainder.
    fn of_division(text: &str) -> Option<Variable> {
        let rest = text.strip_prefix("user")?.trim_start();
        let (variable, by): (fn(NonZeroU64) -> Variable, _) = match rest.strip_prefix('/') {
            Some(by) => (Variable::UserDivided, by),
            None => (Variable::UserRemainder, rest.strip_prefix('%')?),
        };
        by.trim().parse().ok().map(variable)
    }
}

/// The random choice of a variable, once for each user.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Draw {
    Number { min: u64, max: u64 },
    Letters(usize),
    Choice(Vec<String>),
}

impl Draw {
    /// `None`: the bounds are not in order.
    pub(super) fn number(min: u64, max: u64) -> Option<Draw> {
        (min <= max).then_some(Draw::Number { min, max })
    }

    /// `None`: too many letters.
    pub(super) fn letters(len: u64) -> Option<Draw> {
        (len <= 1_000_000).then_some(Draw::Letters(len as usize))
    }
}

/// The variables that texts may contain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    pub(crate) drawn: Vec<(String, Draw)>,
}

/// The variables that a session sets while it runs. In Tsung another session may use the same name
/// for something else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    pub(crate) names: Vec<String>,
    /// Whether the names are those of a Tsung session, where texts can name nothing else.
    pub(crate) is_tsung: bool,
}

/// The values of the variables for one user.
pub(crate) struct TextContext<'a> {
    pub(crate) variables: &'a Variables,
    pub(crate) seed: u64,
    pub(crate) user: u64,
    pub(crate) slots: &'a [Value],
    /// The text of a slot that was not set.
    pub(crate) undefined: &'static str,
    /// The machine's monotonic clock.
    pub(crate) now: Duration,
    pub(crate) mark: Mark,
}

/// The mark that `${now}` has besides the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Nothing,
    /// The sender of a broadcast, each receipt of which is reported.
    Broadcast(u32),
    /// The sender, and the number of its message, from 1: receivers check their order.
    Numbered(u32, u32),
}

/// The content of `${now}` in a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentAt {
    /// The time on the monotonic clock of the sending machine.
    pub(crate) at: Duration,
    pub(crate) mark: Mark,
}

/// The text before the time of `${now}`.
const MARK: &str = "wf-sent-at-";

/// The name of `${id}` in Tsung.
pub(crate) const UNIQUE_ID: &str = "ts_user_server:get_unique_id";
/// The variable of a Tsung session that has the same value.
const USER_ID: &str = "tsung_userid";

impl Slots {
    /// The index of a name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    pub(crate) fn add(&mut self, name: &str) {
        if self.find(name).is_none() {
            self.names.push(name.to_owned());
        }
    }
}

impl Variables {
    fn find(&self, name: &str, slots: &Slots) -> Option<Variable> {
        let slot = slots.find(name).map(Variable::Slot);
        if slots.is_tsung {
            let is_id = [UNIQUE_ID, USER_ID].contains(&name);
            return slot.or(is_id.then_some(Variable::Id));
        }
        match name {
            "user" => Some(Variable::User),
            "id" => Some(Variable::Id),
            "now" => Some(Variable::Now),
            _ => {
                let drawn = self.drawn.iter().position(|(known, _)| known == name);
                drawn.map(Variable::Drawn).or(slot).or_else(|| Variable::of_division(name))
            }
        }
    }

    /// All names, for the error about an unknown variable.
    fn names(&self, slots: &Slots) -> String {
        if slots.is_tsung {
            return slots.names.join(", ");
        }
        let own = self.drawn.iter().map(|(name, _)| name).chain(&slots.names);
        let names: Vec<String> = own.map(|name| format!("${{{name}}}")).collect();
        [vec!["${user}".to_owned(), "${id}".to_owned(), "${now}".to_owned()], names]
            .concat()
            .join(", ")
    }
}

impl Text {
    /// Parses a text; an unknown variable is an error.
    pub(crate) fn parse(
        text: &str,
        place: Place,
        variables: &Variables,
        slots: &Slots,
    ) -> Result<Text, String> {
        let mut pieces = Vec::new();
        let mut quotes = Quotes::default();
        let mut rest = text;
        while let Some((literal, after)) = rest.split_once("${") {
            // `$$` is a dollar sign.
            if let Some(literal) = literal.strip_suffix('$') {
                quotes.read(literal);
                pieces.push(Piece::Literal(format!("{literal}${{").into()));
                rest = after;
                continue;
            }
            let (name, after) = after.split_once('}').ok_or("a ${ without a closing }")?;
            let variable = variables.find(name, slots);
            let unknown = || {
                let names = variables.names(slots);
                format!("unknown variable ${{{name}}}; known variables: {names}")
            };
            if !literal.is_empty() {
                quotes.read(literal);
                pieces.push(Piece::Literal(literal.into()));
            }
            let escape = place.escape(&quotes);
            pieces.push(Piece::Variable(variable.ok_or_else(unknown)?, escape));
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.into()));
        }
        Ok(Text(pieces))
    }

    pub(crate) fn literal(text: &str) -> Text {
        Text(vec![Piece::Literal(text.into())])
    }

    pub(crate) fn bytes(bytes: Vec<u8>) -> Text {
        Text(vec![Piece::Bytes(bytes.into())])
    }

    /// The whole text, if it has no variables.
    pub(crate) fn as_literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether the text depends on a value from its first character on.
    pub(crate) fn begins_with_value(&self) -> bool {
        match self.0.first() {
            Some(Piece::Variable(..)) => true,
            Some(Piece::Literal(text)) => text.starts_with("http"),
            Some(Piece::Bytes(_)) | None => false,
        }
    }

    pub(crate) fn is_timed(&self) -> bool {
        self.times() > 0
    }

    /// How often the text contains `${now}`.
    pub(crate) fn times(&self) -> usize {
        let is_time = |piece: &&Piece| matches!(piece, Piece::Variable(Variable::Now, _));
        self.0.iter().filter(is_time).count()
    }

    /// Appends the text with the values of one user.
    pub(crate) fn write(&self, context: &TextContext<'_>, out: &mut Vec<u8>) {
        for piece in &self.0 {
            match piece {
                Piece::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Variable(variable, Escape::Nothing) => context.write(*variable, out),
                Piece::Variable(variable, escape) => {
                    let mut value = Vec::new();
                    context.write(*variable, &mut value);
                    escape.write(&value, out);
                }
            }
        }
    }

    /// The text with the values of one user.
    pub(crate) fn to_string(&self, context: &TextContext<'_>) -> String {
        let mut out = Vec::new();
        self.write(context, &mut out);
        // Bytes are only in bodies.
        String::from_utf8(out).expect("texts and variables are UTF-8")
    }
}

impl TextContext<'_> {
    fn write(&self, variable: Variable, out: &mut Vec<u8>) {
        use std::io::Write as _;
        let written = match variable {
            Variable::User => write!(out, "{}", self.user),
            Variable::Id => write!(out, "{}", self.user + 1),
            Variable::UserDivided(by) => write!(out, "{}", self.user / by),
            Variable::UserRemainder(by) => write!(out, "{}", self.user % by),
            Variable::Now => {
                let nanos = self.now.as_nanos();
                match self.mark {
                    Mark::Nothing => write!(out, "{MARK}{nanos}."),
                    Mark::Broadcast(user) => write!(out, "{MARK}{nanos}-{user}!"),
                    Mark::Numbered(user, number) => write!(out, "{MARK}{nanos}-{user}-{number}!"),
                }
            }
            Variable::Drawn(index) => self.draw(index, 0, out),
            Variable::Slot(slot) => {
                self.write_value(self.slots.get(slot).unwrap_or(&Value::Undefined), out)
            }
        };
        written.expect("writing to a vector cannot fail");
    }

    fn write_value(&self, value: &Value, out: &mut Vec<u8>) -> std::io::Result<()> {
        use std::io::Write as _;
        match value {
            Value::Undefined => write!(out, "{}", self.undefined),
            Value::Drawn { drawn, times } => self.draw(*drawn as usize, *times, out),
            Value::Number(number) => write!(out, "{number}"),
            Value::Text(text) => write!(out, "{text}"),
            Value::List(list) => list.iter().try_for_each(|text| write!(out, "{text}")),
        }
    }

    /// The text of a value.
    pub(crate) fn text_of(&self, value: &Value) -> String {
        let mut out = Vec::new();
        self.write_value(value, &mut out).expect("writing to a vector cannot fail");
        String::from_utf8(out).expect("values are UTF-8")
    }

    /// Draws a variable for the user. `times` distinguishes the draws of a slot.
    fn draw(&self, index: usize, times: u32, out: &mut Vec<u8>) -> std::io::Result<()> {
        use std::io::Write as _;
        let purpose = index as u64 | u64::from(times) << 32;
        let mut rng = Rng::from_seed(seed_for(self.seed, self.user, purpose));
        match &self.variables.drawn[index].1 {
            Draw::Number { min, max } => write!(out, "{}", rng.between(*min, *max)),
            Draw::Letters(len) => {
                out.extend((0..*len).map(|_| b'a' + rng.between(0, 25) as u8));
                Ok(())
            }
            Draw::Choice(choices) => {
                let chosen = rng.between(0, choices.len() as u64 - 1) as usize;
                out.write_all(choices[chosen].as_bytes())
            }
        }
    }
}

/// The time at which a message with `${now}` was written, and the bytes after it.
pub(crate) fn sent_at(message: &[u8]) -> Option<(SentAt, &[u8])> {
    let at = memmem::find(message, MARK.as_bytes())? + MARK.len();
    let (nanos, rest) = number(&message[at..])?;
    Some((
        SentAt { at: Duration::from_nanos(nanos), mark: mark(rest).unwrap_or(Mark::Nothing) },
        rest,
    ))
}

fn mark(after_time: &[u8]) -> Option<Mark> {
    let (user, rest) = number(after_time.strip_prefix(b"-")?)?;
    let user = u32::try_from(user).ok()?;
    if rest.starts_with(b"!") {
        return Some(Mark::Broadcast(user));
    }
    let (number, rest) = number(rest.strip_prefix(b"-")?)?;
    rest.starts_with(b"!").then_some(Mark::Numbered(user, u32::try_from(number).ok()?))
}

/// The number at the start of the bytes, and the rest.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    let (digits, rest) = bytes.split_at(end);
    Some((str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        let drawn = vec![
            ("room".to_owned(), Draw::Number { min: 3, max: 4 }),
            ("word".to_owned(), Draw::Letters(5)),
            ("colour".to_owned(), Draw::Choice(vec!["red".into(), "blue".into()])),
        ];
        Variables { drawn }
    }

    fn filled(text: &str, user: u64) -> String {
        filled_with(text, Place::Plain, user, "t0")
    }

    fn filled_with(text: &str, place: Place, user: u64, token: &str) -> String {
        let variables = variables();
        let values = [Value::Text(token.into())];
        let now = Duration::from_nanos(17);
        let context = TextContext {
            variables: &variables,
            seed: 1,
            user,
            slots: &values,
            undefined: "",
            now,
            mark: Mark::Nothing,
        };
        Text::parse(text, place, &variables, &slots(false)).unwrap().to_string(&context)
    }

    fn slots(is_tsung: bool) -> Slots {
        Slots { names: vec!["token".to_owned()], is_tsung }
    }

    #[test]
    fn a_value_between_the_quotes_of_json_is_escaped() {
        let filled = |text: &str| filled_with(text, Place::Json, 0, "a\"b\\c\n");
        let escaped = r#"a\"b\\c\u000a"#;
        assert_eq!(filled(r#"{"t":"${token}"}"#), format!(r#"{{"t":"{escaped}"}}"#));
        // A quote that is escaped does not end a string.
        assert_eq!(filled(r#"["\"${token}"]"#), format!(r#"["\"{escaped}"]"#));
        assert_eq!(filled(r#"["\\",${token}]"#), format!(r#"["\\",{}]"#, "a\"b\\c\n"));
        let object = filled_with(r#"{"user":${token}}"#, Place::Json, 0, r#"{"id":"7"}"#);
        assert_eq!(object, r#"{"user":{"id":"7"}}"#);
        assert_eq!(filled_with("rooms:${token}", Place::JsonString, 0, "\""), "rooms:\\\"");
    }

    #[test]
    fn a_value_cannot_leave_a_target_a_header_or_a_form() {
        let filled = |place, token| filled_with("x${token}", place, 0, token);
        assert_eq!(filled(Place::Target, "/a?b=c%20&d"), "x/a?b=c%20&d");
        assert_eq!(filled(Place::Target, "a b\r\n\u{e4}#"), "xa%20b%0D%0A%C3%A4%23");
        assert_eq!(filled(Place::Header, "a\r\nX-B: \u{e4}"), "xa  X-B: \u{e4}");
        assert_eq!(filled(Place::Form, "a b&c=\u{e4}"), "xa+b%26c%3D%C3%A4");
        assert_eq!(filled(Place::Plain, "a\"\r"), "xa\"\r");
    }

    #[test]
    fn a_slot_has_the_last_draw_of_a_user() {
        let variables = variables();
        let slots = slots(true);
        let parsed = |text: &str| Text::parse(text, Place::Plain, &variables, &slots);
        let text = parsed(&format!("${{token}} ${{{UNIQUE_ID}}}")).unwrap();
        let filled = |value: Value| {
            text.to_string(&TextContext {
                variables: &variables,
                seed: 1,
                user: 3,
                slots: &[value],
                undefined: "undefined",
                now: Duration::ZERO,
                mark: Mark::Nothing,
            })
        };
        assert_eq!(filled(Value::Undefined), "undefined 4");
        let list = Value::List(["a".into(), "b".into()].into());
        assert_eq!(filled(list), "ab 4");
        let first = filled(Value::Drawn { drawn: 1, times: 1 });
        let second = filled(Value::Drawn { drawn: 1, times: 2 });
        assert_eq!((first.len(), first != second), (7, true));
        assert_ne!(filled(Value::Drawn { drawn: 0, times: 3 }).len(), 7);
        for name in ["word", "user", "now", "token[1]"] {
            assert!(parsed(&format!("${{{name}}}")).is_err(), "{name}");
        }
    }

    #[test]
    fn variables_are_replaced_for_each_user() {
        assert_eq!(filled("{\"user\": ${id}}", 6), "{\"user\": 7}");
        assert_eq!(filled("${user}${token}$", 6), "6t0$");
        assert_eq!(filled("a $${user} is ${user}", 6), "a ${user} is 6");
        assert!(["room 3", "room 4"].contains(&filled("room ${room}", 6).as_str()));
        assert_eq!(filled("${word}", 0).len(), 5);
        assert!(["red", "blue"].contains(&filled("${colour}", 0).as_str()));
    }

    #[test]
    fn a_drawn_value_stays_the_same_for_a_user() {
        assert_eq!(filled("${word}", 3), filled("${word}", 3));
        assert_ne!(filled("${word}", 3), filled("${word}", 4));
    }

    #[test]
    fn an_unknown_variable_is_an_error_with_the_known_ones() {
        let (variables, slots) = (variables(), slots(false));
        let error = Text::parse("a ${rom}", Place::Plain, &variables, &slots).unwrap_err();
        assert!(error.starts_with("unknown variable ${rom}; known variables: ${user}"), "{error}");
        assert!(error.contains("${room}"), "{error}");
        assert!(Text::parse("a ${rom", Place::Plain, &variables, &slots).is_err());
    }

    #[test]
    fn the_number_of_a_user_can_be_divided() {
        assert_eq!(filled("room:${user / 50}-${user % 50}", 149), "room:2-49");
        assert_eq!(filled("${user/3}", 3), "1");
        for text in ["${user / 0}", "${user / x}", "${user - 1}", "${id / 2}"] {
            let parsed = Text::parse(text, Place::Plain, &variables(), &Slots::default());
            assert!(parsed.unwrap_err().contains("unknown variable"), "{text}");
        }
    }

    #[test]
    fn the_time_of_sending_is_parsed_from_a_message() {
        let message = filled("{\"at\":\"${now}\"}", 0);
        let at = Duration::from_nanos(17);
        let sent = |message: &str| sent_at(message.as_bytes()).map(|(sent, _)| sent);
        assert_eq!(sent(&message), Some(SentAt { at, mark: Mark::Nothing }));
        for (message, mark) in [
            ("wf-sent-at-17-4!\"", Mark::Broadcast(4)),
            ("wf-sent-at-17-4-9!\"", Mark::Numbered(4, 9)),
            ("wf-sent-at-17-4-9", Mark::Nothing),
            ("wf-sent-at-17-4-4294967296!", Mark::Nothing),
            ("wf-sent-at-17-4", Mark::Nothing),
            ("wf-sent-at-17-!", Mark::Nothing),
        ] {
            assert_eq!(sent(message), Some(SentAt { at, mark }), "{message}");
        }
        assert_eq!(sent_at(b"{}"), None);
        assert_eq!(sent_at(b"wf-sent-at-x"), None);
    }
}
