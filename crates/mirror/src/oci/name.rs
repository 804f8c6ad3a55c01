//! Names of repositories.

use std::fmt;
use std::str::FromStr;

const NAME_CHARS_MAX: usize = 255;

/// The name of a repository, such as `library/debian`.
///
/// ```
/// use watchfire_mirror::oci::Repository;
///
/// assert!("library/debian".parse::<Repository>().is_ok());
/// assert!("Library/debian".parse::<Repository>().is_err());
/// assert!("library//debian".parse::<Repository>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Repository(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("invalid repository name of {chars} characters: at most {NAME_CHARS_MAX} are possible")]
    TooLong { chars: usize },
    #[error(
        "invalid repository name {name:?}: expected lower-case letters and digits, with '.', '_', '__' or '-' between them, separated by '/'"
    )]
    Grammar { name: String },
}

impl Repository {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Repository {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        if name.len() > NAME_CHARS_MAX {
            return Err(NameError::TooLong { chars: name.chars().count() });
        }
        match name.split('/').all(is_component) {
            true => Ok(Repository(name.to_owned())),
            false => Err(NameError::Grammar { name: name.to_owned() }),
        }
    }
}

/// `[a-z0-9]+ ((\.|_|__|-+) [a-z0-9]+)*`
fn is_component(component: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    if !is_letter(*first) || !is_letter(*last) {
        return false;
    }
    bytes.split(|byte| is_letter(*byte)).all(|separator| match separator {
        b"" | b"." | b"_" | b"__" => true,
        dashes => dashes.iter().all(|byte| *byte == b'-'),
    })
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_grammar_of_the_specification() {
        for name in ["a", "0", "a/b/c", "a.b", "a_b", "a__b", "a-b", "a---b", "a.b_c--d/e9"] {
            assert_eq!(name.parse::<Repository>().map(|name| name.to_string()), Ok(name.into()));
        }
        let long = "a/".repeat(127) + "ab";
        for name in [
            "", "/", "a/", "/a", "a//b", "A", "a.", ".a", "a..b", "a___b", "a._b", "-a", "a-",
            "a b", "é", "a/../b", "a%2fb", "a:b", "a\0b", &long,
        ] {
            assert!(name.parse::<Repository>().is_err(), "{name:?}");
        }
    }
}
