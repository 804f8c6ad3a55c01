//! The rows of files with one record in each line, such as names and passwords.

use std::sync::Arc;

/// More rows of one file are an error.
const ROWS_MAX: usize = 4_000_000;

/// The lines of a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rows {
    pub(crate) name: String,
    lines: Arc<[Box<str>]>,
}

/// How a session takes the columns of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Columns {
    /// The index of the file.
    pub(crate) file: usize,
    pub(crate) delimiter: String,
    /// Whether a row is drawn, rather than the next one taken.
    pub(crate) is_random: bool,
    /// Whether a column may be quoted (RFC 4180), so that the delimiter can be part of it.
    pub(crate) may_be_quoted: bool,
}

impl Rows {
    pub(crate) fn parse(name: &str, text: &str) -> Result<Rows, String> {
        let lines: Arc<[Box<str>]> = text.lines().map(Box::from).collect();
        match lines.len() {
            0 => Err("the file has no row".to_owned()),
            1..=ROWS_MAX => Ok(Rows { name: name.to_owned(), lines }),
            _ => Err(format!("the file has more than {ROWS_MAX} rows")),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// A row. After the last one comes the first one again.
    pub(crate) fn row(&self, index: u64) -> &str {
        &self.lines[(index % self.lines.len() as u64) as usize]
    }
}

impl Columns {
    pub(crate) fn split(&self, row: &str) -> Vec<String> {
        if !self.may_be_quoted || !row.contains('"') {
            return row.split(&self.delimiter).map(str::to_owned).collect();
        }
        let mut columns = Vec::new();
        let mut rest = row;
        loop {
            let (column, after) = match rest.strip_prefix('"') {
                Some(quoted) => unquoted(quoted),
                None => {
                    let end = rest.find(&self.delimiter).unwrap_or(rest.len());
                    (rest[..end].to_owned(), &rest[end..])
                }
            };
            columns.push(column);
            match after.strip_prefix(&self.delimiter) {
                Some(next) => rest = next,
                None => return columns,
            }
        }
    }
}

/// The text until the closing quote, and the rest of the row. Two quotes stand for one.
fn unquoted(text: &str) -> (String, &str) {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('"') {
        out.push_str(before);
        match after.strip_prefix('"') {
            Some(after) => {
                out.push('"');
                rest = after;
            }
            None => return (out, after),
        }
    }
    out.push_str(rest);
    (out, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_split_at_its_delimiter() {
        let split = |row: &str, delimiter: &str, may_be_quoted| {
            let delimiter = delimiter.to_owned();
            Columns { file: 0, delimiter, is_random: false, may_be_quoted }.split(row)
        };
        assert_eq!(split("a;b;;c", ";", false), ["a", "b", "", "c"]);
        assert_eq!(split("a\"b||c", "||", false), ["a\"b", "c"]);
        assert_eq!(split(r#"a,"b,""c""",d,"e"#, ",", true), ["a", "b,\"c\"", "d", "e"]);
        assert_eq!(split("\"a\"x,b", ",", true), ["a"]);
    }

    #[test]
    fn rows_begin_again_after_the_last_one() {
        let rows = Rows::parse("users.csv", "a\r\nb\nc").unwrap();
        assert_eq!([0, 2, 3].map(|index| rows.row(index)), ["a", "c", "a"]);
        assert!(Rows::parse("empty.csv", "").is_err());
    }
}
