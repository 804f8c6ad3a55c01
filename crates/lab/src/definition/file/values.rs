//! Names and other values that several parts of a file have.

use std::collections::BTreeMap;

/// Most trials, repeats and warm-up runs of an experiment.
pub const RUNS_MAX: u32 = 1000;
pub const NAME_PROBLEM: &str =
    "must be 1 to 64 letters, digits, '-', '_' or '.', and begin with a letter or a digit";
/// The peer of a group that names none.
pub const OURS: &str = "watchfire";

/// A count that a file leaves out.
pub const fn one() -> u32 {
    1
}

/// Values as text, for the command line of a program.
pub fn texts(values: BTreeMap<String, toml::Value>) -> BTreeMap<String, String> {
    let text = |value: toml::Value| match value {
        toml::Value::String(text) => text,
        value => value.to_string(),
    };
    values.into_iter().map(|(key, value)| (key, text(value))).collect()
}

/// Whether a group or an object may have this name: it becomes the name of a file.
pub fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_part)
}

/// An error about a name that nothing has.
pub fn unknown<T>(kind: &str, name: &str, known: &BTreeMap<String, T>) -> String {
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    format!("no {kind} has the name {name:?}; known: {}", names.join(", "))
}
