//! Keys and tokens, which a command reads from a file or from the environment. They are never arguments:
//! every user of the machine can read those.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail};

/// The secret, from its file or else from the value of a variable. `None`: there is neither.
pub fn read(
    file: Option<&Path>,
    variable: &str,
    value: Option<String>,
) -> anyhow::Result<Option<String>> {
    let (secret, from) = match file {
        Some(path) => {
            let text = fs::read_to_string(path)
                .with_context(|| format!("cannot read the file {}", path.display()))?;
            (text, path.display().to_string())
        }
        None => match value.filter(|value| !value.is_empty()) {
            Some(value) => (value, variable.to_owned()),
            None => return Ok(None),
        },
    };
    let secret = secret.trim();
    let can_be_in_header = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    if secret.is_empty() || !secret.bytes().all(can_be_in_header) {
        bail!("cannot use the secret in {from}: it must be visible ASCII characters on one line");
    }
    Ok(Some(secret.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_that_of_the_file_or_else_of_the_environment() {
        let read = |file, value: Option<&str>| read(file, "KEY", value.map(ToOwned::to_owned));
        let variable = Some("from-the-environment");
        assert_eq!(read(None, variable).unwrap().as_deref(), variable);
        assert_eq!(read(None, None).unwrap(), None);
        assert_eq!(read(None, Some("")).unwrap(), None);
        for bad in ["two\nlines", "é", " ", "a\tb"] {
            let error = read(None, Some(bad)).unwrap_err().to_string();
            assert!(error.contains("in KEY"), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        fs::write(&file, "from the file\n").unwrap();
        assert_eq!(read(Some(&file), variable).unwrap().as_deref(), Some("from the file"));
        fs::remove_file(&file).unwrap();
        assert!(read(Some(&file), variable).is_err(), "it is gone");
    }
}
