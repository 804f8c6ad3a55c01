//! Reads the error types of all crates: an error prints its cause or returns it as its source, and never both.
//!
//! A program prints an error with its sources, joined by colons. An error that prints its cause and also returns
//! it makes that program print the same text twice: "auth: no key: no key".

use std::fs;
use std::path::Path;

/// The place after the bracket that closes the one at the beginning of `text`. Brackets in strings do not count.
fn after_brackets(text: &str) -> Option<usize> {
    let (mut depth, mut is_string, mut is_escaped) = (0, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'(' | b'[' | b'{' if !is_string => depth += 1,
            b')' | b']' | b'}' if !is_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// `text` without its comments, which hold brackets and quotes of their own.
fn without_comments(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The fields of a variant or a struct, divided at the commas outside of brackets.
fn fields(body: &str) -> Vec<&str> {
    let (mut fields, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' | b']' | b'}' | b'>' => depth -= 1,
            b',' if depth == 0 => {
                fields.push(&body[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    fields.push(&body[begin..]);
    fields
}

/// The name or number of the field that `thiserror` returns as the source.
fn source_field(body: &str) -> Option<String> {
    let is_tuple = body.starts_with('(');
    let inner = &body[1..body.len() - 1];
    fields(inner).into_iter().enumerate().find_map(|(number, field)| {
        let is_marked = field.contains("#[from]") || field.contains("#[source]");
        let declared = field.rsplit(']').next().unwrap_or(field);
        let name = declared.split(':').next().and_then(|name| words(name).last());
        match name {
            _ if is_tuple => is_marked.then(|| number.to_string()),
            Some(name) if is_marked || name == "source" => Some(name.to_owned()),
            _ => None,
        }
    })
}

/// Whether the arguments of `#[error(…)]` print the field.
fn prints(arguments: &str, field: &str) -> bool {
    let text_end = arguments.rfind('"').map_or(0, |at| at + 1);
    let (text, rest) = arguments.split_at(text_end);
    let in_text = [format!("{{{field}}}"), format!("{{{field}:")];
    let is_number = field.starts_with(|c: char| c.is_ascii_digit());
    in_text.iter().any(|placeholder| text.contains(placeholder))
        || if is_number {
            rest.split([',', ' ', '(']).any(|argument| argument.starts_with(&format!(".{field}")))
        } else {
            words(rest).any(|word| word == field)
        }
}

/// How many errors with a source `code` declares, and the arguments of those that print it.
fn examine(code: &str) -> (usize, Vec<String>) {
    const ATTRIBUTE: &str = "#[error(";
    let code = without_comments(code);
    let (mut count, mut wrong) = (0, Vec::new());
    for (at, _) in code.match_indices(ATTRIBUTE) {
        let text = &code[at + ATTRIBUTE.len() - 1..];
        let Some(end) = after_brackets(text) else { continue };
        let (arguments, mut rest) =
            (&text[1..end - 1], text[end..].trim_start_matches(']').trim_start());
        while rest.starts_with("#[") {
            let end = after_brackets(&rest[1..]).expect("an attribute ends");
            rest = rest[1 + end..].trim_start();
        }
        let Some(begin) = rest.find(['(', '{', ',', '}', ';']) else { continue };
        let Some(begin) = begin_of_fields(rest, begin) else { continue };
        let end = after_brackets(&rest[begin..]).expect("the fields end");
        if let Some(field) = source_field(&rest[begin..begin + end])
            && arguments.trim() != "transparent"
        {
            count += 1;
            if prints(arguments, &field) {
                wrong.push(arguments.trim().to_owned());
            }
        }
    }
    (count, wrong)
}

/// Where the fields begin; `None` for a variant without any. `pub(crate)` before a struct has brackets, too.
fn begin_of_fields(item: &str, found: usize) -> Option<usize> {
    if item.starts_with("pub(") {
        let end = after_brackets(&item[found..])? + found;
        let next = item[end..].find(['(', '{', ';'])? + end;
        return begin_of_fields(&item[next..], 0).map(|at| at + next);
    }
    item[found..].starts_with(['(', '{']).then_some(found)
}

fn examine_folder(folder: &Path, count: &mut usize, wrong: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            examine_folder(&path, count, wrong);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let (found, bad) = examine(&fs::read_to_string(&path).expect("a source"));
            *count += found;
            wrong.extend(bad.into_iter().map(|text| format!("{}: {text}", path.display())));
        }
    }
}

#[test]
fn an_error_prints_its_cause_or_returns_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a crate is in a folder");
    let (mut count, mut wrong) = (0, Vec::new());
    for entry in fs::read_dir(crates).expect("the crates") {
        let sources = entry.expect("a crate").path().join("src");
        if sources.is_dir() {
            examine_folder(&sources, &mut count, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "these errors print their source and return it: {wrong:#?}");
    assert!(count >= 5, "only {count} errors that return a cause were found");
}

#[test]
fn each_way_to_print_and_return_a_cause_is_found() {
    let printed = [
        r#"#[error("auth: {0}")] Auth(#[from] AuthError),"#,
        r#"#[error("auth: {0:?}")] Auth(#[source] AuthError),"#,
        r#"#[error("{0}: {1}")] Auth(String, #[source] Box<dyn Error>),"#,
        r#"#[error("auth: {}", .0)] Auth(#[from] AuthError),"#,
        r#"#[error("{path}: {source}")] File { path: PathBuf, source: io::Error },"#,
        r#"#[error("{path}: {error}")] File { path: PathBuf, #[source] error: io::Error },"#,
        r#"#[error("{}: {}", path.display(), source)] File { path: PathBuf, source: io::Error },"#,
        "#[error(\n\"(a [b] {source}\"\n)]\n/// Not (closed.\n#[cfg(unix)]\npub struct File {\npub source: io::Error,\n}",
        r#"#[error("a {0}")] pub(crate) struct Failed(#[from] io::Error);"#,
    ];
    for code in printed {
        assert_eq!(examine(code).1.len(), 1, "{code}");
    }
    let either = [
        r#"#[error(transparent)] Auth(#[from] AuthError),"#,
        r#"#[error("auth: {0}")] Auth(AuthError),"#,
        r#"#[error("auth")] Auth(#[from] AuthError),"#,
        r#"#[error("{path}")] File { path: PathBuf, source: io::Error },"#,
        r#"#[error("{path}: {cause}")] File { path: PathBuf, cause: io::Error },"#,
        r#"#[error("stopped")] Stopped, #[error("{source}")] Other { cause: io::Error },"#,
        r#"#[error("{0}: in {1}")] Auth(String, PathBuf, #[source] Box<dyn Error>),"#,
    ];
    for code in either {
        assert_eq!(examine(code).1, Vec::<String>::new(), "{code}");
    }
}
