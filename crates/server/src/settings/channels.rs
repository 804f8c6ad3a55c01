use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchfire_channels::Pattern;
use watchfire_hooks::Hook;
use watchfire_settings::{ByteSize, section};

section! {
    "channels";
    /// The channels that the server has without an application.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ChannelSettings {
        /// Channels by topic pattern, without a line of code. The first rule that matches a topic
        /// applies, after the server's own topics and an application's channels. A rule in the form
        /// of a table:
        ///
        /// ```toml
        /// [[channels.rules]]
        /// pattern = "orders:*"   # an exact topic, or a prefix with one * at the end
        /// join = "token"         # "anyone", "token" (a token must name the topic), or "never"
        /// publish = "server"     # "clients": joined clients may send; "server": only the server's side may
        /// presence = false       # whether joined clients see each other
        /// hooks = []             # "join", "publish": hooks.url decides too; "leave": it gets a notice
        /// history = { messages = 100, age = "5m", bytes = "1MiB" }   # the messages kept of each topic; absent: none
        /// ```
        rules: Vec<ChannelRule> = Vec::new();
        /// Memory for the kept messages of all topics, in bytes. Over it, the messages of the topics that were not
        /// used for the longest time are dropped. With several processes, each may have so much.
        history_bytes_max: u64 = 64 << 20;
    }
}

/// A channel for the topics of one pattern.
///
/// ```
/// use watchfire::{ChannelRule, HistoryRule, JoinRule, Server, Settings};
///
/// let mut settings = Settings::default();
/// settings.channels.rules.push(ChannelRule {
///     join: JoinRule::Anyone,
///     history: Some(HistoryRule { messages: 20, ..HistoryRule::default() }),
///     ..ChannelRule::of("news:*")
/// });
/// assert!(Server::new(settings).check().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelRule {
    /// An exact topic, or a prefix with one `*` at the end.
    pub pattern: String,
    /// The clients that may join.
    #[serde(default)]
    pub join: JoinRule,
    /// The senders of messages.
    #[serde(default)]
    pub publish: PublishRule,
    /// Whether the server tracks the joined clients, and sends each the others.
    #[serde(default)]
    pub presence: bool,
    /// The questions and notices that the backend of `hooks.url` gets.
    #[serde(default)]
    pub hooks: Vec<Hook>,
    /// The messages that the server keeps of each topic. `None`: it keeps none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<HistoryRule>,
}

/// The clients that may join the topics of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JoinRule {
    /// Any client.
    Anyone,
    /// A client with a token that names the topic.
    #[default]
    Token,
    /// No client. The rule closes a part of what a later rule opens.
    Never,
}

/// The senders of the messages to the topics of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PublishRule {
    /// The joined clients. If the rule needs a token to join, the token must allow it too.
    Clients,
    /// Only the server's own side: the HTTP API, or an application.
    #[default]
    Server,
}

/// Topics of a feature, for which there are no rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnTopics {
    /// An exact topic, or a prefix with one `*` at the end.
    pub pattern: &'static str,
    /// The setting by which the feature has them, such as `channels.open_rooms`. `None`: it always has them.
    pub setting: Option<&'static str>,
}

/// The bounds of a topic's history. The server drops the oldest message first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistoryRule {
    /// Messages of one topic.
    pub messages: u32,
    /// The age of a message.
    #[serde(with = "humantime_serde")]
    pub age: Duration,
    /// Bytes of one topic's messages.
    pub bytes: ByteSize,
}

impl Default for HistoryRule {
    fn default() -> Self {
        HistoryRule { messages: 100, age: Duration::from_secs(300), bytes: ByteSize(1 << 20) }
    }
}

impl HistoryRule {
    /// The first field that has no valid value.
    fn invalid_field(&self) -> Option<&'static str> {
        let invalid = [
            ("messages", !(1..=HISTORY_MESSAGES_MAX).contains(&self.messages)),
            ("age", self.age.is_zero() || self.age > HISTORY_AGE_MAX),
            ("bytes", !(1..=HISTORY_BYTES_MAX).contains(&self.bytes.0)),
        ];
        invalid.into_iter().find_map(|(field, is_invalid)| is_invalid.then_some(field))
    }
}

/// A log travels between processes in one message, so it is not large.
const HISTORY_MESSAGES_MAX: u32 = 100_000;
const HISTORY_BYTES_MAX: u64 = 8 << 20;
const HISTORY_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);

/// The topic of heartbeats.
const PROTOCOL: &str = watchfire_channels::event::PHOENIX_TOPIC;
/// Rules are searched one after the other, so they are few.
const RULES_MAX: usize = 1_000;

/// Why a rule cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// There are too many rules.
    #[error("cannot use {rules} rules: there may be {RULES_MAX}; use patterns that end in *")]
    TooMany {
        /// The number of rules.
        rules: usize,
    },
    /// The pattern has no valid form.
    #[error("cannot use the pattern {pattern:?}: {cause}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The cause.
        cause: String,
    },
    /// The pattern has a control character. Topics with such a character are the server's own.
    #[error("cannot use the pattern {pattern:?}: it has a control character; remove it")]
    ControlCharacter {
        /// The pattern.
        pattern: String,
    },
    /// Two rules have the same pattern.
    #[error("cannot use the pattern {pattern:?} twice: remove one of the rules")]
    Duplicate {
        /// The pattern.
        pattern: String,
    },
    /// An earlier rule matches every topic of the pattern, so the rule never applies.
    #[error(
        "cannot use the pattern {pattern:?}: the earlier pattern {earlier:?} matches all its topics; move the rule before it"
    )]
    Unreachable {
        /// The pattern.
        pattern: String,
        /// The pattern of the earlier rule.
        earlier: String,
    },
    /// The pattern matches a topic that the server or one of its features has itself.
    #[error(
        "cannot use the pattern {pattern:?}: it overlaps the server's own topics {built_in:?}; use another prefix"
    )]
    BuiltIn {
        /// The pattern.
        pattern: String,
        /// The pattern of the server's own topics.
        built_in: &'static str,
    },
    /// The pattern matches a topic that a feature has by a setting.
    #[error(
        "cannot use the pattern {pattern:?} together with {setting}, which has the topics {built_in:?}: turn it off, or use another prefix"
    )]
    OfSetting {
        /// The pattern.
        pattern: String,
        /// The pattern of the feature's topics.
        built_in: &'static str,
        /// The setting.
        setting: &'static str,
    },
    /// A rule has hooks, and there is no backend.
    #[error(
        "cannot use the hooks of the pattern {pattern:?}: hooks.url is empty; set it, or remove the hooks"
    )]
    NoBackend {
        /// The pattern.
        pattern: String,
    },
    /// A rule has the hook of clients that connect.
    #[error(
        "cannot use the hook \"connect\" of the pattern {pattern:?}: a client connects before it joins; remove the hook, and set hooks.connect = true"
    )]
    ConnectHook {
        /// The pattern.
        pattern: String,
    },
    /// A rule asks the backend about messages that no client may send.
    #[error(
        "cannot use the hook \"publish\" of the pattern {pattern:?}: no client may send there; set publish = \"clients\", or remove the hook"
    )]
    NoPublisher {
        /// The pattern.
        pattern: String,
    },
    /// A bound of the history is zero or too high.
    #[error(
        "cannot use history.{field} of the pattern {pattern:?}: it must be above zero, and messages at most {HISTORY_MESSAGES_MAX}, age 30 days, bytes 8MiB; for no history, leave history out"
    )]
    History {
        /// The pattern of the rule.
        pattern: String,
        /// The field.
        field: &'static str,
    },
    /// A rule needs tokens, and no client can have one.
    #[error(
        "cannot use join = \"token\" of the pattern {pattern:?}: the section auth has no key; set one, or hooks.connect, or set join"
    )]
    NoKey {
        /// The pattern.
        pattern: String,
    },
}

impl ChannelSettings {
    /// Checks the rules. `has_identities`: the server can verify tokens, or asks a backend for the
    /// rights of each client.
    pub(crate) fn check(&self, has_identities: bool) -> Result<(), RuleError> {
        let rules = self.rules.len();
        if rules > RULES_MAX {
            return Err(RuleError::TooMany { rules });
        }
        for (index, rule) in self.rules.iter().enumerate() {
            let pattern = rule.pattern.clone();
            if let Err(error) = Pattern::parse(&pattern) {
                let cause = error.to_string();
                return Err(RuleError::Pattern { pattern, cause });
            }
            if pattern.contains(char::is_control) {
                return Err(RuleError::ControlCharacter { pattern });
            }
            if self.rules[..index].iter().any(|earlier| earlier.pattern == pattern) {
                return Err(RuleError::Duplicate { pattern });
            }
            if let Some(earlier) =
                self.rules[..index].iter().find(|rule| covers(&rule.pattern, &pattern))
            {
                let earlier = earlier.pattern.clone();
                return Err(RuleError::Unreachable { pattern, earlier });
            }
            if pattern == PROTOCOL {
                return Err(RuleError::BuiltIn { pattern, built_in: PROTOCOL });
            }
            if let Some(field) = rule.history.as_ref().and_then(HistoryRule::invalid_field) {
                return Err(RuleError::History { pattern, field });
            }
            if rule.join == JoinRule::Token && !has_identities {
                return Err(RuleError::NoKey { pattern });
            }
        }
        Ok(())
    }

    /// Checks the rules beside the topics that a feature of the server has itself.
    pub(crate) fn check_beside(&self, topics: &[OwnTopics]) -> Result<(), RuleError> {
        for ChannelRule { pattern, .. } in &self.rules {
            let Some(own) = topics.iter().find(|own| overlaps(pattern, own.pattern)) else {
                continue;
            };
            let (pattern, built_in) = (pattern.clone(), own.pattern);
            return Err(match own.setting {
                Some(setting) => RuleError::OfSetting { pattern, built_in, setting },
                None => RuleError::BuiltIn { pattern, built_in },
            });
        }
        Ok(())
    }
}

impl ChannelRule {
    /// A rule for the topics of a pattern, as in a file without the other keys: a client needs a token to join,
    /// and only the server's side may send.
    pub fn of(pattern: impl Into<String>) -> Self {
        ChannelRule {
            pattern: pattern.into(),
            join: JoinRule::Token,
            publish: PublishRule::Server,
            presence: false,
            hooks: Vec::new(),
            history: None,
        }
    }

    /// Checks the hooks. `has_backend`: there is a server that can be asked.
    pub(crate) fn check_hooks(&self, has_backend: bool) -> Result<(), RuleError> {
        let pattern = || self.pattern.clone();
        if !self.hooks.is_empty() && !has_backend {
            return Err(RuleError::NoBackend { pattern: pattern() });
        }
        if self.hooks.contains(&Hook::Connect) {
            return Err(RuleError::ConnectHook { pattern: pattern() });
        }
        if self.hooks.contains(&Hook::Publish) && self.publish == PublishRule::Server {
            return Err(RuleError::NoPublisher { pattern: pattern() });
        }
        Ok(())
    }
}

/// Whether a pattern matches every topic that another one matches.
fn covers(pattern: &str, other: &str) -> bool {
    let prefix = pattern.strip_suffix('*');
    prefix.is_some_and(|prefix| other.strip_suffix('*').unwrap_or(other).starts_with(prefix))
}

/// Whether a topic exists that both patterns match.
fn overlaps(a: &str, b: &str) -> bool {
    match (a.strip_suffix('*'), b.strip_suffix('*')) {
        (Some(a), Some(b)) => a.starts_with(b) || b.starts_with(a),
        (Some(prefix), None) => b.starts_with(prefix),
        (None, Some(prefix)) => a.starts_with(prefix),
        (None, None) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ChannelSettings {
        toml::from_str(text).expect("the settings parse")
    }

    fn check_of(patterns: &[&str]) -> Result<(), RuleError> {
        let rules = patterns.iter().map(|pattern| format!("[[rules]]\npattern = \"{pattern}\"\n"));
        parse(&rules.collect::<String>()).check(true)
    }

    #[test]
    fn a_rule_is_closed_unless_it_says_otherwise() {
        let settings = parse("[[rules]]\npattern = \"orders:*\"");
        assert_eq!(settings.rules, [ChannelRule::of("orders:*")]);
        assert_eq!(settings.check(true), Ok(()));
        let error = settings.check(false).unwrap_err();
        assert_eq!(error, RuleError::NoKey { pattern: "orders:*".into() });
    }

    #[test]
    fn a_rule_is_read_as_it_was_written() {
        let settings = parse(
            "[[rules]]\npattern = \"news\"\njoin = \"anyone\"\npublish = \"clients\"\npresence = true",
        );
        let text = toml::to_string(&settings).unwrap();
        assert_eq!(parse(&text), settings);
    }

    #[test]
    fn hooks_need_a_backend_and_messages_that_it_can_decide_about() {
        let rule =
            |rest: &str| parse(&format!("[[rules]]\npattern = \"a\"\n{rest}")).rules.remove(0);
        let all = rule("publish = \"clients\"\nhooks = [\"join\", \"publish\", \"leave\"]");
        assert_eq!(all.check_hooks(true), Ok(()));
        assert_eq!(all.check_hooks(false), Err(RuleError::NoBackend { pattern: "a".into() }));
        assert_eq!(rule("").check_hooks(false), Ok(()));
        let silent = rule("hooks = [\"publish\"]");
        let connect = rule("hooks = [\"connect\"]").check_hooks(true);
        assert_eq!(connect, Err(RuleError::ConnectHook { pattern: "a".into() }));
        assert_eq!(silent.check_hooks(true), Err(RuleError::NoPublisher { pattern: "a".into() }));
    }

    #[test]
    fn a_history_has_three_bounds() {
        let text = |history: &str| {
            format!("[[rules]]\npattern = \"news\"\njoin = \"anyone\"\nhistory = {{ {history} }}")
        };
        let settings = parse(&text("messages = 7, age = \"1m\", bytes = \"2MiB\""));
        let expected =
            HistoryRule { messages: 7, age: Duration::from_secs(60), bytes: ByteSize(2 << 20) };
        assert_eq!(settings.rules[0].history, Some(expected));
        assert_eq!(parse(&toml::to_string(&settings).unwrap()), settings);
        assert_eq!(parse(&text("")).rules[0].history, Some(HistoryRule::default()));
        for (field, value) in [
            ("messages", "0"),
            ("messages", "100001"),
            ("age", "\"0s\""),
            ("age", "\"31days\""),
            ("bytes", "0"),
            ("bytes", "\"9MiB\""),
        ] {
            let error = parse(&text(&format!("{field} = {value}"))).check(true).unwrap_err();
            assert_eq!(error, RuleError::History { pattern: "news".into(), field });
        }
    }

    #[test]
    fn a_misspelt_key_or_value_of_a_rule_is_an_error() {
        for rest in [
            "jion = \"anyone\"",
            "join = \"nobody\"",
            "hooks = [\"joins\"]",
            "history = { mesages = 1 }",
        ] {
            let text = format!("[[rules]]\npattern = \"news\"\n{rest}");
            assert!(toml::from_str::<ChannelSettings>(&text).is_err(), "{rest}");
        }
        assert!(toml::from_str::<ChannelSettings>("[[rules]]\njoin = \"anyone\"").is_err());
    }

    #[test]
    fn a_rule_cannot_match_a_topic_of_the_server() {
        let topics = |pattern, setting| OwnTopics { pattern, setting };
        let of_feature = [
            topics("game:*", None),
            topics("lobby", None),
            topics("chat:*", Some("channels.open_chat")),
        ];
        let check_beside_feature = |pattern: &str| {
            let settings = parse(&format!("[[rules]]\npattern = \"{pattern}\""));
            settings.check(true).and_then(|()| settings.check_beside(&of_feature))
        };
        for (pattern, built_in) in [
            ("game:*", "game:*"),
            ("game:x", "game:*"),
            ("ga*", "game:*"),
            ("*", "game:*"),
            ("lobby", "lobby"),
            ("lob*", "lobby"),
            ("phoenix", "phoenix"),
        ] {
            let expected = RuleError::BuiltIn { pattern: pattern.into(), built_in };
            assert_eq!(check_beside_feature(pattern), Err(expected), "{pattern}");
        }
        for pattern in ["game", "games:*", "lobbies", "lobby:*", "phoenix:*"] {
            assert_eq!(check_beside_feature(pattern), Ok(()), "{pattern}");
        }
        // Without the feature, its topics are those of any application.
        for pattern in ["game:*", "game:x", "*", "chat:a*", "lobby"] {
            assert_eq!(check_of(&[pattern]), Ok(()), "{pattern}");
        }
        let error = check_beside_feature("chat:lobby").unwrap_err().to_string();
        let expected = "together with channels.open_chat, which has the topics \"chat:*\"";
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_rule_behind_one_that_matches_all_its_topics_is_refused() {
        for (earlier, pattern) in [("a:*", "a:b:*"), ("a:*", "a:secret"), ("a*", "a")] {
            let expected =
                RuleError::Unreachable { pattern: pattern.into(), earlier: earlier.into() };
            assert_eq!(check_of(&[earlier, "b", pattern]), Err(expected));
        }
    }

    #[test]
    fn rules_may_overlap_each_other_but_not_be_equal() {
        assert_eq!(check_of(&["a:secret", "a:b:*", "a:*", "ab"]), Ok(()));
        let error = check_of(&["a:*", "b", "a:*"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot use the pattern \"a:*\" twice: remove one of the rules"
        );
    }

    #[test]
    fn a_pattern_has_its_star_at_the_end_and_no_control_characters() {
        let error = check_of(&["a:*:b"]).unwrap_err().to_string();
        assert!(error.starts_with("cannot use the pattern \"a:*:b\":"), "{error}");
        assert!(matches!(check_of(&[""]), Err(RuleError::Pattern { .. })));
        assert!(matches!(check_of(&["\\u0000a"]), Err(RuleError::ControlCharacter { .. })));
    }
}
