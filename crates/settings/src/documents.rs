//! The files that the sections produce: `config.example.toml` and `docs/reference/settings.md`.

use std::fmt::Write as _;

use toml::{Table, Value};

use crate::section::Row;
use crate::sections::SectionType;

/// The longest line of a comment in `config.example.toml`.
const WIDTH: usize = 110;

const EXAMPLE_HEAD: &str = r#"# Every setting of Watchfire with its default. Copy only the settings that you change.
#
# The same keys work as environment variables (WATCHFIRE_LIMITS_FRAME_BYTES_MAX=65536) and on the
# command line (--set limits.frame_bytes_max=65536). Variables override the file, and the command line
# overrides both. An unknown key is an error. `GET /limits` shows the limits of a running server.
"#;

const REFERENCE_HEAD: &str = "# Settings

Every setting is a key of a TOML file, as in
[`config.example.toml`](https://github.com/watchfire/watchfire/blob/main/config.example.toml), which has
each with its default. The same keys work as environment variables
(`WATCHFIRE_LIMITS_FRAME_BYTES_MAX=65536`) and on the command line
(`--set limits.frame_bytes_max=65536`). Variables override the file, and the command line overrides both.
An unknown key is an error.

`GET /limits` shows the limits that have a unit here, to pages of every origin. *Fixed* is a bound that no setting changes.
";

/// The default of a setting, as TOML. `None`: the row is fixed, or it is a section itself.
fn default_of(defaults: &Table, key: &str) -> Option<Value> {
    defaults.get(key).filter(|value| !value.is_table()).cloned()
}

/// Joins the lines of each paragraph. Lines of a code block stay, each as a paragraph with two spaces.
fn paragraphs(row: &Row) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let mut is_code = false;
    for line in row.effect.iter().filter(|line| !line.is_empty()) {
        let line = line.strip_prefix(' ').unwrap_or(line);
        if line.starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            paragraphs.push(format!("  {line}"));
        } else {
            let last = paragraphs.last_mut().expect("there is a first paragraph");
            let space = if last.is_empty() { "" } else { " " };
            *last += &format!("{space}{line}");
        }
    }
    paragraphs
}

fn comment(row: &Row) -> String {
    let paragraphs = paragraphs(row);
    let mut text = String::new();
    for (index, paragraph) in paragraphs.iter().enumerate() {
        if index == 1 {
            text += "#\n";
        }
        if index > 0 {
            let _ = writeln!(text, "# {paragraph}");
            continue;
        }
        let mut line = "#".to_owned();
        for word in paragraph.replace('`', "").split(' ') {
            if line.chars().count() + 1 + word.chars().count() > WIDTH {
                let _ = writeln!(text, "{line}");
                "#".clone_into(&mut line);
            }
            line = format!("{line} {word}");
        }
        let _ = writeln!(text, "{line}");
    }
    text
}

/// The name, the rows and the defaults of each section. Types of one name are one section.
fn by_name(types: &[SectionType]) -> Vec<(&'static str, Vec<Row>, Table)> {
    let mut sections: Vec<(&'static str, Vec<Row>, Table)> = Vec::new();
    for of in types {
        let at = sections.iter().position(|(name, ..)| *name == of.name).unwrap_or_else(|| {
            sections.push((of.name, Vec::new(), Table::new()));
            sections.len() - 1
        });
        sections[at].1.extend((of.rows)());
        sections[at].2.extend((of.defaults)());
    }
    sections
}

/// A settings file with every setting, its effect and its default.
pub fn example(sections: &[SectionType]) -> String {
    let mut text = EXAMPLE_HEAD.to_owned();
    for (name, rows, defaults) in by_name(sections) {
        let _ = writeln!(text, "\n[{name}]");
        for row in rows.iter().filter(|row| !row.is_fixed) {
            if let Some(default) = default_of(&defaults, row.key) {
                let _ = writeln!(text, "{}{} = {default}", comment(row), row.key);
            }
        }
    }
    text
}

/// A page with every setting and every limit.
pub fn reference(sections: &[SectionType]) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let mut text = REFERENCE_HEAD.to_owned();
    for (name, rows, defaults) in by_name(sections) {
        let _ = writeln!(
            text,
            "\n## `{name}`\n\n| key | default | effect | unit and effect of the limit |"
        );
        let _ = writeln!(text, "|---|---|---|---|");
        for row in &rows {
            let default = match (default_of(&defaults, row.key), &row.limit, row.is_fixed) {
                (Some(default), ..) => format!("`{default}`"),
                (None, Some(limit), true) => format!("`{}`, fixed", limit.value),
                _ => continue,
            };
            let limit = row.limit.as_ref();
            let limit = limit.map(|limit| format!("{}. {}", limit.unit, limit.when_reached));
            let mut effect = paragraphs(row);
            let code = effect.split_off(1);
            let code: String = code.iter().map(|line| format!("<br>`{}`", line.trim())).collect();
            let (key, effect) = (row.key, cell(&(effect.remove(0) + &code)));
            let _ = writeln!(
                text,
                "| `{key}` | {} | {effect} | {} |",
                cell(&default),
                cell(&limit.unwrap_or_default())
            );
        }
    }
    text
}
