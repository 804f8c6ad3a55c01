//! The address of an upstream registry.

use std::fmt;
use std::str::FromStr;

/// The host of Docker Hub's API; its images are named after `docker.io`.
const DOCKER_HUB_API: &str = "https://registry-1.docker.io";

/// A registry that is mirrored.
///
/// ```
/// use watchfire_mirror::upstream::Registry;
///
/// let hub: Registry = "docker.io".parse().unwrap();
/// assert_eq!(hub.base_url(), "https://registry-1.docker.io");
/// let local: Registry = "http://127.0.0.1:5000".parse().unwrap();
/// assert_eq!(local.name(), "127.0.0.1:5000");
/// let named: Registry = "registry.example=http://127.0.0.1:5000".parse().unwrap();
/// assert_eq!(named.name(), "registry.example");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Registry {
    name: String,
    base_url: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid upstream registry {text:?}: expected a host such as docker.io, a URL such as https://registry.example:5000, or <host>=<URL>"
)]
pub struct RegistryError {
    pub text: String,
}

impl Registry {
    /// The host, with a port if it has one, as it stands in the names of images.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL of the registry, without a slash at its end.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }
}

impl FromStr for Registry {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        let invalid = || RegistryError { text: text.to_owned() };
        let (name, url) = match text.split_once('=') {
            Some((name, url)) => (Some(name), url),
            None => (None, text),
        };
        let (authority, base_url) = match url {
            "docker.io" | "index.docker.io" => ("docker.io".into(), DOCKER_HUB_API.into()),
            url if url.contains("://") => {
                let parsed = reqwest::Url::parse(url).map_err(|_| invalid())?;
                let is_plain = parsed.path() == "/"
                    && parsed.query().is_none()
                    && parsed.fragment().is_none()
                    && parsed.username().is_empty()
                    && parsed.password().is_none();
                if !is_plain || !matches!(parsed.scheme(), "http" | "https") {
                    return Err(invalid());
                }
                let (_, authority) = url.split_once("://").ok_or_else(invalid)?;
                let authority = authority.trim_end_matches('/').to_owned();
                (authority, url.trim_end_matches('/').to_owned())
            }
            host if is_authority(host) => (host.to_owned(), format!("https://{host}")),
            _ => return Err(invalid()),
        };
        let name = name.map_or(authority, ToOwned::to_owned).to_ascii_lowercase();
        match is_authority(&name) && reqwest::Url::parse(&base_url).is_ok() {
            true => Ok(Registry { name, base_url }),
            false => Err(invalid()),
        }
    }
}

/// Whether a text is a host, perhaps with a port.
fn is_authority(text: &str) -> bool {
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    !text.is_empty() && text.bytes().all(is_host) && text.parse::<http::uri::Authority>().is_ok()
}

impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_a_host_or_a_url() {
        let parsed = |text: &str| text.parse::<Registry>().map(|one| (one.name, one.base_url));
        let found = |name: &str, url: &str| Ok((name.to_owned(), url.to_owned()));
        assert_eq!(parsed("ghcr.io"), found("ghcr.io", "https://ghcr.io"));
        assert_eq!(parsed("a.example:8443"), found("a.example:8443", "https://a.example:8443"));
        assert_eq!(parsed("http://[::1]:5000/"), found("[::1]:5000", "http://[::1]:5000"));
        assert_eq!(parsed("A.example=http://b:1"), found("a.example", "http://b:1"));
        assert_eq!(parsed("GHCR.io"), found("ghcr.io", "https://GHCR.io"));
        for text in [
            "",
            "=",
            "a=",
            "=http://b",
            "ftp://a",
            "http://",
            "http://a/path",
            "http://u:p@a",
            "http://a?b",
            "a b",
            "a/b",
            "a=b=c",
            "é",
        ] {
            assert!(parsed(text).is_err(), "{text:?}");
        }
    }
}
