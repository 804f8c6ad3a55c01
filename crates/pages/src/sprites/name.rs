//! Names of grids.

use serde_json::{Value, json};

pub(super) const TOPIC_PREFIX: &str = "sprites:";
/// The longest name of a grid, in bytes.
const NAME_BYTES_MAX: usize = 64;

pub(super) fn topic_of(grid: &str) -> String {
    format!("{TOPIC_PREFIX}{grid}")
}

/// Checks the name of a grid, which stands in topics and paths without escapes. The error is a sentence.
pub fn check_grid_name(name: &str) -> Result<(), String> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(());
    }
    Err(format!("a grid's name is 1 to {NAME_BYTES_MAX} letters, digits and - . _ ~"))
}

/// The reply to a client that names a grid with an invalid name.
pub(super) fn check_grid(name: &str) -> Result<(), Value> {
    check_grid_name(name)
        .map_err(|message| json!({ "reason": "invalid grid name", "message": message }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_name_has_only_plain_characters() {
        assert!(check_grid_name("lobby-2.a_b~c").is_ok());
        for name in ["", "a/b", "a b", "é", "%41", &"x".repeat(65)] {
            assert!(check_grid_name(name).is_err(), "{name}");
        }
    }
}
