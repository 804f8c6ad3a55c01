//! Files that a document includes as external entities: `<!ENTITY steps SYSTEM "steps.xml">` in its
//! head, and `&steps;` where the text belongs. The text is inserted before the document is parsed,
//! and [`Lines`] finds the file and the line of a place in the result.

use crate::scenario::{Files, file_text};

/// A longer document is an error, so that a file that is included often cannot fill the memory.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// Where the lines of a document come from.
pub(super) struct Lines {
    name: String,
    included: Vec<Included>,
}

/// The lines of one inclusion in the whole document, from 1. The first and the last one are shared
/// with the text around it.
struct Included {
    first: usize,
    last: usize,
    file: String,
}

impl Lines {
    /// The file and the line of a line of the whole document.
    pub(super) fn find(&self, line: usize) -> (&str, usize) {
        let mut inserted = 0;
        for included in &self.included {
            if line < included.first || (line == included.first && included.first == included.last)
            {
                break;
            }
            if line <= included.last {
                return (&included.file, line - included.first + 1);
            }
            inserted += included.last - included.first;
        }
        (&self.name, line - inserted)
    }
}

/// The whole document, and where its lines come from.
pub(super) fn include(
    name: &str,
    text: &str,
    files: &mut Files<'_>,
) -> Result<(String, Lines), String> {
    let entities = declared(text, files)?;
    let mut out = String::new();
    let mut included = Vec::new();
    let mut rest = text;
    let mut last = 1;
    while let Some((at, (entity, file, inner))) = next_reference(rest, &entities) {
        out.push_str(&rest[..at]);
        let first = last + rest[..at].matches('\n').count();
        out.push_str(inner);
        last = first + inner.matches('\n').count();
        included.push(Included { first, last, file: file.clone() });
        rest = &rest[at + entity.len() + 2..];
        if out.len() > TEXT_BYTES_MAX {
            return Err("more than 64 MiB with all included files".to_owned());
        }
    }
    out.push_str(rest);
    Ok((out, Lines { name: name.to_owned(), included }))
}

/// The name of an entity, its file, and the text of the file.
type Entity = (String, String, String);

/// The first reference to one of the entities.
fn next_reference<'a>(text: &str, entities: &'a [Entity]) -> Option<(usize, &'a Entity)> {
    text.match_indices('&').find_map(|(at, _)| {
        let is_named = |name: &str| {
            text[at + 1..].strip_prefix(name).is_some_and(|rest| rest.starts_with(';'))
        };
        Some((at, entities.iter().find(|entity| is_named(&entity.0))?))
    })
}

/// The files that the head of the document declares.
fn declared(text: &str, files: &mut Files<'_>) -> Result<Vec<Entity>, String> {
    let (head, body) = text.split_at(text.find("<tsung").unwrap_or(0));
    let (head, body) = (without_comments(head), without_comments(body));
    let mut entities = Vec::new();
    for declaration in head.split("<!ENTITY").skip(1) {
        let Some((name, uri)) = declaration.split_once("SYSTEM") else { continue };
        let mut parts = uri.trim_start().split(['"', '\'']);
        let (Some(""), Some(file)) = (parts.next(), parts.next()) else { continue };
        let name = name.trim();
        // Tsung too reads only what the document names.
        if !body.contains(&format!("&{name};")) {
            continue;
        }
        let inner = file_text(files, file)?;
        // A file of its own may begin with a declaration, which is not part of the document.
        let inner = match inner.trim_start().strip_prefix("<?xml") {
            Some(rest) => rest.split_once("?>").map_or("", |(_, rest)| rest).to_owned(),
            None => inner,
        };
        entities.push((name.to_owned(), file.to_owned(), inner));
    }
    Ok(entities)
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("<!--");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| out + part.split_once("-->").map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_included_file_keeps_its_name_and_its_lines() {
        let text =
            "<!DOCTYPE tsung [<!ENTITY a SYSTEM 'a.xml'>]>\n<tsung>\n&a;\n<b/>&a;</tsung>\n<c/>";
        let (whole, lines) = include("x.xml", text, &mut |file| {
            Ok(format!("<?xml version='1.0'?><{file}>\n<y/>\n").into_bytes())
        })
        .unwrap();
        let found: Vec<_> = (1..=8).map(|line| lines.find(line)).collect();
        let expected = [
            ("x.xml", 1),
            ("x.xml", 2),
            ("a.xml", 1),
            ("a.xml", 2),
            ("a.xml", 3),
            ("a.xml", 1),
            ("a.xml", 2),
            ("a.xml", 3),
        ];
        assert_eq!(found, expected, "{whole}");
        assert_eq!(lines.find(9), ("x.xml", 5), "{whole}");
        let commented = text.replace("<!ENTITY", "<!-- <!ENTITY b SYSTEM 'b.xml'> --><!ENTITY");
        let mut read = Vec::new();
        let found = include("x.xml", &commented, &mut |file| {
            read.push(file.to_owned());
            Ok(Vec::new())
        });
        assert!(found.is_ok() && read == ["a.xml"], "{read:?}");
        let unused = text.replace("&a;", "<!-- &a; -->");
        let found = include("x.xml", &unused, &mut |_| Err("no such file".into()));
        assert!(found.is_ok(), "a file that the document does not name is not read");
        let many = text.replace("&a;\n", &"&amp;&a;\n".repeat(200_000));
        let (whole, lines) = include("x.xml", &many, &mut |_| Ok(Vec::new())).unwrap();
        assert_eq!(whole.len(), many.len() - 200_001 * "&a;".len(), "in a short time");
        assert_eq!(lines.find(200_004), ("x.xml", 200_004));
        let error = include("x.xml", text, &mut |_| Err("no such file".into())).map(|_| ());
        assert_eq!(error.unwrap_err(), "cannot read a.xml: no such file");
    }
}
