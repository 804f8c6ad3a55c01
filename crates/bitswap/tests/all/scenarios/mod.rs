//! The behaviour of an exchange, step by step: outputs for given inputs at given times. The files
//! are in `tests/vectors/bitswap`; the tests of the browser's exchange read them too.
//!
//! Each scenario runs here with fake peers. The test fails when the exchange differs from the file. If
//! a change is intended, `WATCHFIRE_WRITE_SCENARIOS=1 cargo test -p watchfire-bitswap --test scenarios`
//! writes the files again. Read the difference.

#![expect(clippy::disallowed_methods, reason = "these tests read and write files")]

mod fake_swarm;
mod record;
mod requesting;
mod serving;

use std::path::PathBuf;

use record::Record;
use serde_json::Value;

/// Compares a record with its file, or writes it.
pub fn check(name: &str, about: &str, record: &Record) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/bitswap");
    let path = folder.join(format!("{name}.json"));
    let text = record.to_text(about);
    if std::env::var_os("WATCHFIRE_WRITE_SCENARIOS").is_some() {
        std::fs::write(&path, text).expect("the file can be written");
        return;
    }
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
    let (ours, theirs) = (read(&text), read(&before));
    let steps = |of: &Value| of["steps"].as_array().cloned().unwrap_or_default();
    for (nth, (ours, theirs)) in steps(&ours).iter().zip(&steps(&theirs)).enumerate() {
        assert_eq!(
            ours, theirs,
            "{name}: step {nth} differs; write the files again if that is intended"
        );
    }
    assert_eq!(
        ours, theirs,
        "{name} differs from its file; write the files again if that is intended"
    );
}
