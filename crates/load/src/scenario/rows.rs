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
    /// Reads the lines of a file, or its records by RFC 4180 if the delimiter and the number of their columns are
    /// given: a quoted column may contain line ends.
    pub(crate) fn parse(
        name: &str,
        text: &str,
        columns: Option<(&str, usize)>,
    ) -> Result<Rows, String> {
        let text = text.trim_start_matches('\u{feff}');
        let lines: Arc<[Box<str>]> = match columns {
            None => text.lines().map(Box::from).collect(),
            Some((delimiter, columns)) => records(text, delimiter, columns)
                .map_err(|(line, problem)| format!("line {line} of {name}: {problem}"))?,
        };
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

/// The records of a text; an error has the number of a line.
fn records(
    text: &str,
    delimiter: &str,
    columns: usize,
) -> Result<Arc<[Box<str>]>, (usize, String)> {
    // Line ends after the last record are no records.
    let text = text.trim_end_matches(['\r', '\n']);
    let mut records = Vec::new();
    let mut begin = 0;
    while begin < text.len() {
        let found = match record(&text[begin..], delimiter) {
            Ok((0, _)) => Err("the line is empty; remove it".to_owned()),
            Ok((_, found)) if found < columns => {
                Err(format!("it has {found} of {columns} columns"))
            }
            found => found,
        };
        let (len, _) = found.map_err(|problem| {
            let before = text[..begin].replace("\r\n", "\n");
            (before.matches(['\r', '\n']).count() + 1, problem)
        })?;
        records.push(Box::from(&text[begin..begin + len]));
        begin += len;
        begin += if text[begin..].starts_with("\r\n") { 2 } else { 1 };
    }
    Ok(records.into())
}

/// The length of the first record of a text, and the number of its columns.
fn record(text: &str, delimiter: &str) -> Result<(usize, usize), String> {
    let (bytes, delimiter) = (text.as_bytes(), delimiter.as_bytes());
    let (mut at, mut columns, mut begins) = (0, 1, true);
    while at < bytes.len() {
        if begins && bytes[at] == b'"' {
            let (_, rest) = unquoted(&text[at + 1..]).ok_or("a quote is not closed")?;
            at = bytes.len() - rest.len();
            let is_end = rest.is_empty() || rest.starts_with(['\r', '\n']);
            if !is_end && !rest.as_bytes().starts_with(delimiter) {
                return Err(
                    "a quoted column ends before its text; write \"\" for a quote".to_owned()
                );
            }
            begins = false;
        } else if matches!(bytes[at], b'\r' | b'\n') {
            break;
        } else {
            begins = bytes[at..].starts_with(delimiter);
            columns += usize::from(begins);
            at += if begins { delimiter.len() } else { 1 };
        }
    }
    Ok((at, columns))
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
                Some(quoted) => unquoted(quoted).unwrap_or((quoted.to_owned(), "")),
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

/// The text until the closing quote, and the rest of the row; `None` without one. Two quotes stand for one.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('"') {
        out.push_str(before);
        match after.strip_prefix('"') {
            Some(after) => {
                out.push('"');
                rest = after;
            }
            None => return Some((out, after)),
        }
    }
    None
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
        let rows = Rows::parse("users.csv", "a\r\nb\nc", None).unwrap();
        assert_eq!([0, 2, 3].map(|index| rows.row(index)), ["a", "c", "a"]);
        assert!(Rows::parse("empty.csv", "", None).is_err());
    }

    #[test]
    fn records_are_those_of_rfc_4180_or_refused_with_their_line() {
        let rows = |text| Rows::parse("users.csv", text, Some((",", 2)));
        let text = "\u{feff}name,id\r\n\"a\r\n\"\"b\"\"\",1\rc,2,more\n,\n\n\n";
        let read = rows(text).unwrap();
        assert_eq!(read.len(), 4);
        let columns =
            Columns { file: 0, delimiter: ",".to_owned(), is_random: false, may_be_quoted: true };
        let split = |row| columns.split(read.row(row));
        assert_eq!(split(0), ["name", "id"]);
        assert_eq!(split(1), ["a\r\n\"b\"", "1"]);
        assert_eq!(
            (split(2), split(3)),
            (vec!["c".into(), "2".into(), "more".into()], vec!["".into(); 2])
        );
        for (text, problem) in [
            ("a,1\n\nb,2", "line 2 of users.csv: the line is empty"),
            ("a,1\r\nb", "line 2 of users.csv: it has 1 of 2 columns"),
            ("\"a\nb\",1\n\"c,2", "line 3 of users.csv: a quote is not closed"),
            ("a,1\n\"b\"x,2", "line 2 of users.csv: a quoted column ends"),
        ] {
            let error = rows(text).unwrap_err();
            assert!(error.starts_with(problem), "{error}");
        }
    }
}
