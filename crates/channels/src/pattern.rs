//! Topic patterns, which select the channel of a topic.

/// A topic pattern: an exact topic, or a prefix that ends in one `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: Box<str>,
}

/// The reason why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("a topic pattern cannot be empty")]
    Empty,
    #[error("in the topic pattern \"{pattern}\", the \"*\" at byte {at} is not at the end")]
    StarInside {
        pattern: String,
        /// The position of the star, in bytes.
        at: usize,
    },
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        match text.find('*') {
            _ if text.is_empty() => Err(PatternError::Empty),
            Some(at) if at + 1 != text.len() => {
                Err(PatternError::StarInside { pattern: text.to_owned(), at })
            }
            _ => Ok(Pattern { text: text.into() }),
        }
    }

    pub fn matches(&self, topic: &str) -> bool {
        match self.text.strip_suffix('*') {
            Some(prefix) => topic.starts_with(prefix),
            None => topic == &*self.text,
        }
    }

    /// The pattern's text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Topic patterns with their values. The first registered pattern that matches wins.
///
/// ```
/// let mut patterns = watchfire_channels::Patterns::new();
/// patterns.register("rooms:lobby", "the lobby").unwrap();
/// patterns.register("rooms:*", "a room").unwrap();
/// assert_eq!(patterns.find("rooms:lobby"), Some(&"the lobby"));
/// assert_eq!(patterns.find("rooms:7"), Some(&"a room"));
/// assert_eq!(patterns.find("room"), None);
/// ```
#[derive(Clone, Debug)]
pub struct Patterns<T> {
    entries: Vec<(Pattern, T)>,
}

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Patterns { entries: Vec::new() }
    }
}

impl<T> Patterns<T> {
    pub fn new() -> Self {
        Patterns::default()
    }

    /// Adds a pattern after those already registered.
    pub fn register(&mut self, pattern: &str, value: T) -> Result<(), PatternError> {
        self.entries.push((Pattern::parse(pattern)?, value));
        Ok(())
    }

    /// The value of the first matching pattern.
    pub fn find(&self, topic: &str) -> Option<&T> {
        self.entries.iter().find(|(pattern, _)| pattern.matches(topic)).map(|(_, value)| value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Pattern, &T)> {
        self.entries.iter().map(|(pattern, value)| (pattern, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_without_a_star_matches_one_topic() {
        let pattern = Pattern::parse("rooms:lobby").unwrap();
        assert!(pattern.matches("rooms:lobby"));
        assert!(!pattern.matches("rooms:lobby2"));
        assert!(!pattern.matches("rooms:"));
        assert_eq!(pattern.as_str(), "rooms:lobby");
    }

    #[test]
    fn a_star_at_the_end_matches_any_rest_including_none() {
        let pattern = Pattern::parse("rooms:*").unwrap();
        assert!(pattern.matches("rooms:"));
        assert!(pattern.matches("rooms:a:b"));
        assert!(!pattern.matches("rooms"));
        assert!(!pattern.matches("Rooms:a"));
        assert!(Pattern::parse("*").unwrap().matches("anything"));
    }

    #[test]
    fn a_star_before_the_end_is_refused() {
        for (pattern, at) in [("*:lobby", 0), ("rooms:*:a", 6), ("rooms:**", 6)] {
            let error = PatternError::StarInside { pattern: pattern.to_owned(), at };
            assert_eq!(Pattern::parse(pattern), Err(error));
        }
        assert_eq!(Pattern::parse(""), Err(PatternError::Empty));
    }

    #[test]
    fn the_first_registered_pattern_that_matches_wins() {
        let mut patterns = Patterns::new();
        patterns.register("rooms:*", 1).unwrap();
        patterns.register("rooms:lobby", 2).unwrap();
        assert!(patterns.register("ro*ms", 3).is_err());
        assert_eq!(patterns.find("rooms:lobby"), Some(&1));
        assert_eq!(patterns.iter().count(), 2);
    }
}
