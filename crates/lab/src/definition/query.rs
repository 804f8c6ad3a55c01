//! Label queries: which nodes of a cluster a scenario means.
//!
//! The notation is p2plab's, in prefix form:
//!
//! | query | nodes |
//! |---|---|
//! | `'label'`, or `label` | those with the label |
//! | `(not 'label')` | those without it |
//! | `(and 'a' 'b' ...)` | those to which every part applies |
//! | `(or 'a' 'b' ...)` | those to which at least one part applies |
//!
//! Parts may be queries themselves, and a label may stand in brackets. Each node has its name, the name of
//! its group and `region=NAME` as labels, beside those that its cluster gives it.

use std::collections::BTreeSet;
use std::fmt;

/// Most bytes of a query.
const BYTES_MAX: usize = 4096;
/// Most brackets that are open at the same time.
const DEPTH_MAX: usize = 32;

/// A parsed query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    Label(String),
    Not(Box<Query>),
    And(Vec<Query>),
    Or(Vec<Query>),
}

/// Why a text is not a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid query {query:?}: {problem}; write one like 'label' or (not 'label')")]
pub struct QueryError {
    query: String,
    problem: String,
}

impl Query {
    /// ```
    /// use watchfire_lab::Query;
    ///
    /// let query: Query = Query::parse("(and 'eu' (not 'seeder'))")?;
    /// assert!(query.applies_to(&["eu".to_owned()].into()));
    /// assert!(!query.applies_to(&["eu".to_owned(), "seeder".to_owned()].into()));
    /// # Ok::<(), watchfire_lab::QueryError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Query, QueryError> {
        let error = |problem: &str| QueryError {
            query: text.chars().take(80).collect(),
            problem: problem.to_owned(),
        };
        if text.len() > BYTES_MAX {
            return Err(error("longer than 4,096 bytes"));
        }
        let mut parser = Parser { rest: text.trim() };
        let query = parser.query(0).map_err(|problem| error(&problem))?;
        if parser.rest.is_empty() { Ok(query) } else { Err(error("text after its end")) }
    }

    pub fn applies_to(&self, labels: &BTreeSet<String>) -> bool {
        match self {
            Query::Label(label) => labels.contains(label),
            Query::Not(part) => !part.applies_to(labels),
            Query::And(parts) => parts.iter().all(|part| part.applies_to(labels)),
            Query::Or(parts) => parts.iter().any(|part| part.applies_to(labels)),
        }
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = |f: &mut fmt::Formatter<'_>, name: &str, parts: &[Query]| {
            write!(f, "({name}")?;
            parts.iter().try_for_each(|part| write!(f, " {part}"))?;
            f.write_str(")")
        };
        match self {
            Query::Label(label) => write!(f, "'{label}'"),
            Query::Not(part) => write!(f, "(not {part})"),
            Query::And(parts) => many(f, "and", parts),
            Query::Or(parts) => many(f, "or", parts),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn query(&mut self, depth: usize) -> Result<Query, String> {
        if depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} brackets are open"));
        }
        if let Some(rest) = self.rest.strip_prefix('(') {
            self.rest = rest.trim_start();
            return self.operator(depth);
        }
        self.label().map(Query::Label)
    }

    fn operator(&mut self, depth: usize) -> Result<Query, String> {
        let name = self.word();
        let mut parts = Vec::new();
        loop {
            if let Some(rest) = self.rest.strip_prefix(')') {
                self.rest = rest.trim_start();
                break;
            }
            if self.rest.is_empty() {
                return Err("a bracket is not closed".to_owned());
            }
            parts.push(self.query(depth + 1)?);
        }
        match (name.as_str(), parts.len()) {
            ("not", 1) => Ok(Query::Not(Box::new(parts.remove(0)))),
            ("not", _) => Err("\"not\" takes one part".to_owned()),
            // A label in brackets.
            (label, 0) if !["and", "or", ""].contains(&label) => Ok(Query::Label(name)),
            ("and" | "or", 0) => Err(format!("{name:?} takes at least one part")),
            ("and", _) => Ok(Query::And(parts)),
            ("or", _) => Ok(Query::Or(parts)),
            _ => Err(format!("unknown operator {name:?}; the operators are not, and, or")),
        }
    }

    fn label(&mut self) -> Result<String, String> {
        if let Some(rest) = self.rest.strip_prefix('\'') {
            let (label, rest) = rest.split_once('\'').ok_or("a quote is not closed")?;
            self.rest = rest.trim_start();
            return if label.is_empty() { Err("empty label".into()) } else { Ok(label.to_owned()) };
        }
        match self.word() {
            word if word.is_empty() => Err("a label is missing".to_owned()),
            word => Ok(word),
        }
    }

    fn word(&mut self) -> String {
        let is_end = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | '\'');
        let end = self.rest.find(is_end).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applies(query: &str, labels: &[&str]) -> bool {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        Query::parse(query).expect(query).applies_to(&labels)
    }

    #[test]
    fn each_operator_selects_its_nodes() {
        for (query, labels, expected) in [
            ("'a'", &["a", "b"][..], true),
            ("a", &["a"], true),
            ("a", &["b"], false),
            ("(not 'a')", &["b"], true),
            ("(not a)", &["a"], false),
            ("(a)", &["a"], true),
            ("(and 'a' 'b')", &["a", "b"], true),
            ("(and 'a' 'b')", &["a"], false),
            ("(or 'a' 'b' 'c')", &["c"], true),
            ("( or 'a'  (and b (not c)) )", &["b"], true),
            ("'with space'", &["with space"], true),
        ] {
            assert_eq!(applies(query, labels), expected, "{query} on {labels:?}");
        }
    }

    #[test]
    fn a_query_that_is_shown_parses_again() {
        let text = "(or 'a' (and 'b' (not 'c')))";
        let query = Query::parse("(or a (and b (not 'c')))").unwrap();
        assert_eq!(query.to_string(), text);
        assert_eq!(Query::parse(text).unwrap(), query);
    }

    #[test]
    fn an_invalid_query_names_its_problem() {
        let deep = "(not ".repeat(40) + "a" + &")".repeat(40);
        for (query, problem) in [
            ("", "a label is missing"),
            ("''", "empty label"),
            ("'a", "a quote is not closed"),
            ("(not 'a'", "a bracket is not closed"),
            ("(not a b)", "takes one part"),
            ("(and)", "at least one part"),
            ("(xor a b)", "unknown operator \"xor\""),
            ("a b", "text after its end"),
            ("(not a))", "text after its end"),
            (&deep, "more than 32 brackets"),
        ] {
            let error = Query::parse(query).expect_err(query).to_string();
            assert!(error.contains(problem), "{query}: {error}");
        }
        assert!(Query::parse(&"a".repeat(5000)).is_err());
    }
}
