//! Texts with variables in them, such as `{"user": ${id}}`.

use crate::sampling::seed_for;
use std::time::Duration;

use memchr::memmem;

use watchfire_types::Rng;

/// A text, split at its variables.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text(Vec<Piece>);

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Literal(Box<str>),
    Variable(Variable),
}

/// The meaning of a `${name}`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Variable {
    /// `${user}`: the number of the user, from 0.
    User,
    /// `${id}`: the number of the user, from 1.
    Id,
    /// `${now}`: the time of sending, so that receivers can measure the delay.
    Now,
    Drawn(usize),
    Saved(usize),
}

/// The random choice of a variable, once for each user.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Draw {
    Number { min: u64, max: u64 },
    Letters(usize),
    Choice(Vec<String>),
}

/// The variables that texts may contain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    pub(crate) drawn: Vec<(String, Draw)>,
    /// Values saved from responses, by name.
    pub(crate) saved: Vec<String>,
}

/// The values of the variables for one user.
pub(crate) struct TextContext<'a> {
    pub(crate) variables: &'a Variables,
    pub(crate) seed: u64,
    pub(crate) user: u64,
    pub(crate) saved: &'a [String],
    /// The machine's monotonic clock.
    pub(crate) now: Duration,
    /// Whether each receipt is reported.
    pub(crate) is_broadcast: bool,
}

/// The content of `${now}` in a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentAt {
    /// The time on the monotonic clock of the sending machine.
    pub(crate) at: Duration,
    /// The sender, if it is a broadcast.
    pub(crate) broadcast_by: Option<u32>,
}

/// The text before the time of `${now}`.
const MARK: &str = "wf-sent-at-";

impl Variables {
    fn find(&self, name: &str) -> Option<Variable> {
        match name {
            "user" => Some(Variable::User),
            "id" => Some(Variable::Id),
            "now" => Some(Variable::Now),
            _ => {
                let drawn = self.drawn.iter().position(|(known, _)| known == name);
                let saved = self.saved.iter().position(|known| known == name);
                drawn.map(Variable::Drawn).or(saved.map(Variable::Saved))
            }
        }
    }

    /// All names, for the error about an unknown variable.
    fn names(&self) -> String {
        let own = self.drawn.iter().map(|(name, _)| name).chain(&self.saved);
        let names: Vec<String> = own.map(|name| format!("${{{name}}}")).collect();
        [vec!["${user}".to_owned(), "${id}".to_owned(), "${now}".to_owned()], names]
            .concat()
            .join(", ")
    }
}

impl Text {
    /// Parse a text; an unknown variable is an error.
    pub(crate) fn parse(text: &str, variables: &Variables) -> Result<Text, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((literal, after)) = rest.split_once("${") {
            // `$$` is a dollar sign.
            if let Some(literal) = literal.strip_suffix('$') {
                pieces.push(Piece::Literal(format!("{literal}${{").into()));
                rest = after;
                continue;
            }
            let (name, after) = after.split_once('}').ok_or("a ${ without a closing }")?;
            let variable = variables.find(name);
            let unknown =
                || format!("unknown variable ${{{name}}}; known variables: {}", variables.names());
            if !literal.is_empty() {
                pieces.push(Piece::Literal(literal.into()));
            }
            pieces.push(Piece::Variable(variable.ok_or_else(unknown)?));
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.into()));
        }
        Ok(Text(pieces))
    }

    /// A text without variables.
    pub(crate) fn literal(text: &str) -> Text {
        Text(vec![Piece::Literal(text.into())])
    }

    /// The whole text, if it has no variables.
    pub(crate) fn as_literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether it contains `${now}`.
    pub(crate) fn is_timed(&self) -> bool {
        self.0.contains(&Piece::Variable(Variable::Now))
    }

    /// Append the text with the values of one user.
    pub(crate) fn write(&self, context: &TextContext<'_>, out: &mut Vec<u8>) {
        use std::io::Write as _;
        for piece in &self.0 {
            let variable = match piece {
                Piece::Literal(text) => {
                    out.extend_from_slice(text.as_bytes());
                    continue;
                }
                Piece::Variable(variable) => *variable,
            };
            let written = match variable {
                Variable::User => write!(out, "{}", context.user),
                Variable::Id => write!(out, "{}", context.user + 1),
                Variable::Now if context.is_broadcast => {
                    write!(out, "{MARK}{}-{}!", context.now.as_nanos(), context.user)
                }
                Variable::Now => write!(out, "{MARK}{}.", context.now.as_nanos()),
                Variable::Saved(index) => {
                    let saved = context.saved.get(index).map_or("", String::as_str);
                    write!(out, "{saved}")
                }
                Variable::Drawn(index) => context.draw(index, out),
            };
            written.expect("writing to a vector cannot fail");
        }
    }

    /// The text with the values of one user.
    pub(crate) fn to_string(&self, context: &TextContext<'_>) -> String {
        let mut out = Vec::new();
        self.write(context, &mut out);
        String::from_utf8(out).expect("texts and variables are UTF-8")
    }
}

impl TextContext<'_> {
    fn draw(&self, index: usize, out: &mut Vec<u8>) -> std::io::Result<()> {
        use std::io::Write as _;
        let mut rng = Rng::from_seed(seed_for(self.seed, self.user, index as u64));
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

/// The time at which a message with `${now}` was written.
pub(crate) fn sent_at(message: &[u8]) -> Option<SentAt> {
    let at = memmem::find(message, MARK.as_bytes())? + MARK.len();
    let (nanos, rest) = number(&message[at..])?;
    let by = rest.strip_prefix(b"-").and_then(number);
    let broadcast_by = by.filter(|(_, rest)| rest.starts_with(b"!")).map(|(user, _)| user as u32);
    Some(SentAt { at: Duration::from_nanos(nanos), broadcast_by })
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
        Variables { drawn, saved: vec!["token".to_owned()] }
    }

    fn filled(text: &str, user: u64) -> String {
        let variables = variables();
        let saved = ["t0".to_owned()];
        let now = Duration::from_nanos(17);
        let context = TextContext {
            variables: &variables,
            seed: 1,
            user,
            saved: &saved,
            now,
            is_broadcast: false,
        };
        Text::parse(text, &variables).unwrap().to_string(&context)
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
        let error = Text::parse("a ${rom}", &variables()).unwrap_err();
        assert!(error.starts_with("unknown variable ${rom}; known variables: ${user}"), "{error}");
        assert!(error.contains("${room}"), "{error}");
        assert!(Text::parse("a ${rom", &variables()).is_err());
    }

    #[test]
    fn the_time_of_sending_is_parsed_from_a_message() {
        let message = filled("{\"at\":\"${now}\"}", 0);
        let at = Duration::from_nanos(17);
        assert_eq!(sent_at(message.as_bytes()), Some(SentAt { at, broadcast_by: None }));
        for (message, broadcast_by) in
            [("wf-sent-at-17-4!\"", Some(4)), ("wf-sent-at-17-4", None), ("wf-sent-at-17-!", None)]
        {
            assert_eq!(sent_at(message.as_bytes()), Some(SentAt { at, broadcast_by }));
        }
        assert_eq!(sent_at(b"{}"), None);
        assert_eq!(sent_at(b"wf-sent-at-x"), None);
    }
}
