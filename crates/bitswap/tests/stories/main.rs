//! What an exchange does, told step by step in `tests/vectors/bitswap`, where the exchange of the
//! browsers reads the same: given these inputs at these times, these outputs.
//!
//! Each story is played here against pretend peers. When the file says otherwise the test fails;
//! `WATCHFIRE_WRITE_STORIES=1 cargo test -p watchfire-bitswap --test stories` writes the files anew,
//! for whoever changed what the core does and looked at the difference.

#![expect(clippy::disallowed_methods, reason = "the files are what is tested")]

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
    if std::env::var_os("WATCHFIRE_WRITE_STORIES").is_some() {
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
            "{name}: step {nth} is another; write the files anew if it is meant"
        );
    }
    assert_eq!(
        ours, theirs,
        "{name} is not what the file says; write the files anew if it is meant"
    );
}
