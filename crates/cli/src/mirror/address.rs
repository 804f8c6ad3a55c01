//! The option that names a running mirror.

use watchfire_mirror::upstream::Registry;

/// Reads the URL of a mirror.
pub fn parse(text: &str) -> Result<Registry, String> {
    let is_url = text.starts_with("http://") || text.starts_with("https://");
    match text.parse() {
        Ok(mirror) if is_url => Ok(mirror),
        _ => Err("expected a URL such as http://127.0.0.1:5000".into()),
    }
}
