//! The part of CUE in which p2plab writes experiments.
//!
//! It has structs, lists, strings, whole numbers, definitions (`name:: value`), references to names of the file,
//! unification (`a & b`), nested fields (`a: b: 1`) and list comprehensions (`value for x in list`). A name that
//! begins with a capital and is not defined in the file is a schema of p2plab, such as `Group`: it allows
//! everything here, because the reader of the result checks every field. So does `object`. Everything else of CUE
//! is an error with its line.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Most values inside each other, and steps of references.
const DEPTH_MAX: usize = 64;
/// Most values that a file expands to, and bytes of their texts.
const VALUES_MAX: usize = 100_000;
const TEXT_BYTES_MAX: usize = 16 << 20;

/// Why a text is not of this part of CUE.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct CueError {
    line: usize,
    problem: String,
}

/// An expression, at a line.
#[derive(Clone, Debug)]
struct Expression {
    line: usize,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Literal(Value),
    Name(String),
    Struct(Vec<(String, Expression)>),
    List(Vec<Expression>),
    Unified(Vec<Expression>),
    /// A value for each element of a list.
    For {
        value: Box<Expression>,
        variable: String,
        list: Box<Expression>,
    },
}

/// The fields of a file that are not definitions.
pub fn evaluate(text: &str) -> Result<Value, CueError> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let (mut fields, mut names) = (Vec::new(), BTreeMap::new());
    if parser.peek() == Some(&Token::Word("package".to_owned())) {
        parser.at += 2;
    }
    while parser.at < parser.tokens.len() {
        let (name, is_definition, value) = parser.field(0)?;
        names.insert(name.clone(), value.clone());
        if !is_definition {
            fields.push((name, value));
        }
        parser.skip_comma();
    }
    let mut evaluation = Evaluation { names, values: 0, text_bytes: 0 };
    let whole = Expression { line: 1, kind: Kind::Struct(fields) };
    match evaluation.value(&whole, &BTreeMap::new(), 0)? {
        Some(value) => Ok(value),
        None => Ok(Value::Object(Map::new())),
    }
}

struct Evaluation {
    names: BTreeMap<String, Expression>,
    values: usize,
    text_bytes: usize,
}

impl Evaluation {
    /// `None` is a schema, which allows every value.
    fn value(
        &mut self,
        expression: &Expression,
        variables: &BTreeMap<String, Value>,
        depth: usize,
    ) -> Result<Option<Value>, CueError> {
        let error = |problem: String| Err(CueError { line: expression.line, problem });
        self.values += 1;
        if let Kind::Literal(Value::String(text)) = &expression.kind {
            self.text_bytes += text.len();
        }
        let is_large = self.values > VALUES_MAX || self.text_bytes > TEXT_BYTES_MAX;
        if depth > DEPTH_MAX || is_large {
            return error("the values refer to each other in a circle, or are too many".to_owned());
        }
        match &expression.kind {
            Kind::Literal(value) => Ok(Some(value.clone())),
            Kind::Name(name) => {
                if let Some(value) = variables.get(name) {
                    self.count(value);
                    return Ok(Some(value.clone()));
                }
                if let Some(named) = self.names.get(name).cloned() {
                    return self.value(&named, variables, depth + 1);
                }
                let is_schema = name.starts_with(char::is_uppercase) || name == "object";
                if is_schema { Ok(None) } else { error(format!("unknown name {name:?}")) }
            }
            Kind::Struct(fields) => {
                let mut object = Map::new();
                for (name, field) in fields {
                    let Some(value) = self.value(field, variables, depth + 1)? else { continue };
                    let value = match object.remove(name) {
                        Some(known) => unify(known, value, field.line)?,
                        None => value,
                    };
                    object.insert(name.clone(), value);
                }
                Ok(Some(Value::Object(object)))
            }
            Kind::List(items) => {
                let mut list = Vec::new();
                for item in items {
                    self.add_items(item, variables, depth, &mut list)?;
                }
                Ok(Some(Value::Array(list)))
            }
            Kind::Unified(parts) => {
                let mut all: Option<Value> = None;
                for part in parts {
                    let value = self.value(part, variables, depth + 1)?;
                    all = match (all, value) {
                        (Some(one), Some(other)) => Some(unify(one, other, part.line)?),
                        (one, other) => one.or(other),
                    };
                }
                Ok(all)
            }
            Kind::For { .. } => error("\"for\" stands in a list".to_owned()),
        }
    }

    /// Counts the parts of a value that is copied.
    fn count(&mut self, value: &Value) {
        self.values += 1;
        match value {
            Value::String(text) => self.text_bytes += text.len(),
            Value::Array(items) => items.iter().for_each(|item| self.count(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.count(field)),
            _ => {}
        }
    }

    /// Adds the values of one element of a list, which a comprehension makes into several.
    fn add_items(
        &mut self,
        item: &Expression,
        variables: &BTreeMap<String, Value>,
        depth: usize,
        list: &mut Vec<Value>,
    ) -> Result<(), CueError> {
        let Kind::For { value, variable, list: from } = &item.kind else {
            list.extend(self.value(item, variables, depth + 1)?);
            return Ok(());
        };
        let Some(Value::Array(elements)) = self.value(from, variables, depth + 1)? else {
            return Err(CueError { line: item.line, problem: "\"for\" needs a list".to_owned() });
        };
        for element in elements {
            let mut variables = variables.clone();
            variables.insert(variable.clone(), element);
            list.extend(self.value(value, &variables, depth + 1)?);
        }
        Ok(())
    }
}

fn unify(one: Value, other: Value, line: usize) -> Result<Value, CueError> {
    match (one, other) {
        (Value::Object(mut one), Value::Object(other)) => {
            for (name, value) in other {
                let value = match one.remove(&name) {
                    Some(known) => unify(known, value, line)?,
                    None => value,
                };
                one.insert(name, value);
            }
            Ok(Value::Object(one))
        }
        (one, other) if one == other => Ok(one),
        (one, other) => Err(CueError { line, problem: format!("{one} and {other} differ") }),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Number(i64),
    Symbol(char),
    /// `::`
    Definition,
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, CueError> {
    let mut tokens = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let error = |problem: &str| CueError { line: number, problem: problem.to_owned() };
        let mut rest = line.trim_start();
        while !rest.is_empty() && !rest.starts_with("//") {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let (token, len) = if let Some(after) = rest.strip_prefix('"') {
                let end = after.find('"').ok_or_else(|| error("a quote is not closed"))?;
                let text = &after[..end];
                if text.contains('\\') {
                    return Err(error("escapes in a text are not supported"));
                }
                (Token::Text(text.to_owned()), end + 2)
            } else if rest.starts_with("::") {
                (Token::Definition, 2)
            } else if rest.starts_with(is_word) {
                let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
                let word = &rest[..end];
                let token = match word.parse() {
                    Ok(number) => Token::Number(number),
                    Err(_) => Token::Word(word.to_owned()),
                };
                (token, end)
            } else {
                let symbol = rest.chars().next().unwrap_or_default();
                if !"{}[]:,&".contains(symbol) {
                    return Err(error(&format!("{symbol:?} is not supported")));
                }
                (Token::Symbol(symbol), symbol.len_utf8())
            };
            tokens.push((number, token));
            rest = rest[len..].trim_start();
        }
    }
    Ok(tokens)
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn line(&self) -> usize {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(1, |(line, _)| *line)
    }

    fn error<T>(&self, problem: &str) -> Result<T, CueError> {
        Err(CueError { line: self.line(), problem: problem.to_owned() })
    }

    fn take(&mut self, symbol: char) -> bool {
        let is_next = self.peek() == Some(&Token::Symbol(symbol));
        self.at += usize::from(is_next);
        is_next
    }

    fn skip_comma(&mut self) {
        self.take(',');
    }

    /// A field: its name, whether it is a definition, and its value.
    fn field(&mut self, depth: usize) -> Result<(String, bool, Expression), CueError> {
        let name = match self.peek().cloned() {
            Some(Token::Word(name) | Token::Text(name)) => name,
            _ => return self.error("the name of a field is missing"),
        };
        self.at += 1;
        let is_definition = self.peek() == Some(&Token::Definition);
        if is_definition {
            self.at += 1;
        } else if !self.take(':') {
            return self.error("a colon is missing");
        }
        Ok((name, is_definition, self.nested(depth + 1)?))
    }

    /// A value; `a: b: 1` is a struct in a field.
    fn nested(&mut self, depth: usize) -> Result<Expression, CueError> {
        let is_name = matches!(self.peek(), Some(Token::Word(_) | Token::Text(_)));
        let is_field =
            self.tokens.get(self.at + 1).map(|(_, token)| token) == Some(&Token::Symbol(':'));
        if is_name && is_field && self.is_same_line() {
            let line = self.line();
            let (name, _, value) = self.field(depth)?;
            return Ok(Expression { line, kind: Kind::Struct(vec![(name, value)]) });
        }
        self.unified(depth)
    }

    /// Whether the next token is on the line of the one before it.
    fn is_same_line(&self) -> bool {
        self.at > 0 && self.tokens[self.at - 1].0 == self.line()
    }

    fn unified(&mut self, depth: usize) -> Result<Expression, CueError> {
        let line = self.line();
        let mut parts = vec![self.single(depth)?];
        while self.take('&') {
            parts.push(self.single(depth)?);
        }
        match parts.len() {
            1 => Ok(parts.remove(0)),
            _ => Ok(Expression { line, kind: Kind::Unified(parts) }),
        }
    }

    fn single(&mut self, depth: usize) -> Result<Expression, CueError> {
        if depth > DEPTH_MAX {
            return self.error("too many values are inside each other");
        }
        let line = self.line();
        let Some(token) = self.peek().cloned() else { return self.error("a value is missing") };
        self.at += 1;
        let kind = match token {
            Token::Text(text) => Kind::Literal(Value::String(text)),
            Token::Number(number) => Kind::Literal(number.into()),
            Token::Word(word) if word == "true" || word == "false" => {
                Kind::Literal(Value::Bool(word == "true"))
            }
            Token::Word(word) => Kind::Name(word),
            Token::Symbol('{') => Kind::Struct(self.fields(depth)?),
            Token::Symbol('[') => Kind::List(self.items(depth)?),
            Token::Symbol(_) | Token::Definition => {
                self.at -= 1;
                return self.error("a value is missing");
            }
        };
        Ok(Expression { line, kind })
    }

    fn fields(&mut self, depth: usize) -> Result<Vec<(String, Expression)>, CueError> {
        let mut fields = Vec::new();
        while !self.take('}') {
            if self.peek().is_none() {
                return self.error("a bracket is not closed");
            }
            let (name, _, value) = self.field(depth + 1)?;
            fields.push((name, value));
            self.skip_comma();
        }
        Ok(fields)
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Expression>, CueError> {
        let mut items = Vec::new();
        while !self.take(']') {
            if self.peek().is_none() {
                return self.error("a bracket is not closed");
            }
            let mut item = self.unified(depth + 1)?;
            if self.peek() == Some(&Token::Word("for".to_owned())) {
                self.at += 1;
                item = self.comprehension(item, depth)?;
            }
            items.push(item);
            self.skip_comma();
        }
        Ok(items)
    }

    fn comprehension(&mut self, value: Expression, depth: usize) -> Result<Expression, CueError> {
        let line = value.line;
        let Some(Token::Word(variable)) = self.peek().cloned() else {
            return self.error("\"for\" needs a name");
        };
        self.at += 1;
        if self.peek() != Some(&Token::Word("in".to_owned())) {
            return self.error("\"for\" needs \"in\"");
        }
        self.at += 1;
        let list = Box::new(self.unified(depth + 1)?);
        Ok(Expression { line, kind: Kind::For { value: Box::new(value), variable, list } })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_evaluated() {
        for (text, expected) in [
            ("a: 1\nb: \"x\"", json!({ "a": 1, "b": "x" })),
            ("d:: { x: 1 }\na: d & { y: 2 }", json!({ "a": { "x": 1, "y": 2 } })),
            ("a: b: c: [1, 2,]", json!({ "a": { "b": { "c": [1, 2] } } })),
            ("a: { b: 1 }\na: { c: 2 }", json!({ "a": { "b": 1, "c": 2 } })),
            ("a: [{ v: x } for x in l]\nl:: [1, 2]", json!({ "a": [{ "v": 1 }, { "v": 2 }] })),
            ("package p\na: Group & { b: 1 } // text", json!({ "a": { "b": 1 } })),
        ] {
            assert_eq!(evaluate(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn an_error_names_its_line() {
        let deep = format!("a: {}", "[".repeat(100));
        let (text, list) = ("x".repeat(100_000), "1, ".repeat(1000));
        let long = format!("a: [t for x in l]\nl:: [{list}]\nt:: \"{text}\"");
        for (text, line, problem) in [
            ("a: 1\nb: {", 2, "not closed"),
            ("a: 1 & 2", 1, "differ"),
            ("a: b\nb: a", 1, "circle"),
            ("a: x", 1, "unknown name"),
            ("\na: \"x", 2, "quote"),
            ("a: >=1", 1, "not supported"),
            ("a: [x for in y]", 1, "needs"),
            (&deep, 1, "inside each other"),
            (&long, 3, "too many"),
        ] {
            let error = evaluate(text).unwrap_err();
            assert!(error.problem.contains(problem), "{text}: {error}");
            assert_eq!(error.line, line, "{text}: {error}");
        }
    }
}
