//! The files that the table of settings produces. `WATCHFIRE_WRITE=1 cargo test -p watchfire generated`
//! writes them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::section::Row;
use super::sections::Settings;

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

`GET /limits` shows the limits that have a unit here. *Fixed* is a bound that no setting changes.
";

/// The default of a setting, as TOML. `None`: the row is fixed, or it is a section itself.
fn default_of(section: &str, key: &str) -> Option<Value> {
    let all =
        Value::Table(Table::try_from(Settings::default()).expect("settings have a TOML form"));
    let section = section.split('.').try_fold(&all, |at, name| at.get(name)).expect("a section");
    section.get(key).filter(|value| !value.is_table()).cloned()
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

fn example() -> String {
    let mut text = EXAMPLE_HEAD.to_owned();
    for (section, rows) in Settings::default().sections() {
        let _ = writeln!(text, "\n[{section}]");
        for row in rows.iter().filter(|row| !row.is_fixed) {
            if let Some(default) = default_of(section, row.key) {
                let _ = writeln!(text, "{}{} = {default}", comment(row), row.key);
            }
        }
    }
    text
}

fn reference() -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let mut text = REFERENCE_HEAD.to_owned();
    for (section, rows) in Settings::default().sections() {
        let _ = writeln!(
            text,
            "\n## `{section}`\n\n| key | default | effect | unit and effect of the limit |"
        );
        let _ = writeln!(text, "|---|---|---|---|");
        for row in &rows {
            let default = match (default_of(section, row.key), &row.limit, row.is_fixed) {
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

/// Compares a file of the repository, or writes it.
#[track_caller]
fn check(path: &str, expected: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("WATCHFIRE_WRITE").is_some() {
        std::fs::write(&path, expected).expect("the file is written");
    }
    let written = std::fs::read_to_string(&path).expect("the file is there");
    let hint = "WATCHFIRE_WRITE=1 cargo test -p watchfire generated writes it";
    assert!(written == expected, "{} differs from the table of settings; {hint}", path.display());
}

#[test]
fn the_example_file_has_every_setting_with_its_effect_and_default() {
    check("config.example.toml", &example());
    let written: Settings = toml::from_str(&example()).expect("the example file parses");
    assert_eq!(written, Settings::default());
}

#[test]
fn the_reference_has_every_setting_and_every_limit() {
    check("docs/reference/settings.md", &reference());
}
