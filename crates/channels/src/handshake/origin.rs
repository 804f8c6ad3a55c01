//! The web origins that may open a socket.

use std::str::FromStr;

/// The origins that may connect. A request without an `Origin` header is always allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginPolicy {
    /// All origins.
    Any,
    /// Origins with the host and port to which the request was sent. The scheme is not compared,
    /// because a proxy may terminate TLS; nor are the ports 80 and 443 of either scheme.
    SameHost,
    /// Origins that match one of these.
    List(Vec<OriginPattern>),
}

impl OriginPolicy {
    /// Whether a page of this origin may connect, by a request to this host and port.
    pub fn allows(&self, origin: Option<&str>, host: &str) -> bool {
        let Some(origin) = origin else { return true };
        if *self == OriginPolicy::Any {
            return true;
        }
        // A sandboxed page has the origin `null`, which has no host and matches nothing.
        let Some(origin) = Address::parse(origin) else { return false };
        match self {
            OriginPolicy::Any => true,
            OriginPolicy::SameHost => {
                Address::parse(&format!("//{host}")).is_some_and(|own| origin.is_at(&own))
            }
            OriginPolicy::List(patterns) => patterns.iter().any(|pattern| pattern.matches(&origin)),
        }
    }
}

/// `scheme://host:port`, where scheme and port are optional. The host may start with `*.`, for a
/// domain and its subdomains: `https://example.com`, `//example.com:4000`, `//*.example.com`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginPattern {
    scheme: Option<String>,
    host: String,
    port: Option<u16>,
}

/// The text has no host after `//`, or the port is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an origin looks like https://example.com, //example.com or //*.example.com, not {text:?}")]
pub struct OriginPatternError {
    /// The text.
    pub text: String,
}

impl FromStr for OriginPattern {
    type Err = OriginPatternError;

    fn from_str(text: &str) -> Result<Self, OriginPatternError> {
        let address =
            Address::parse(text).ok_or_else(|| OriginPatternError { text: text.to_owned() })?;
        Ok(OriginPattern {
            scheme: address.scheme.map(str::to_ascii_lowercase),
            host: address.host.to_ascii_lowercase(),
            port: address.port,
        })
    }
}

impl OriginPattern {
    fn matches(&self, origin: &Address<'_>) -> bool {
        let scheme_matches = self
            .scheme
            .as_deref()
            .is_none_or(|own| origin.scheme.is_some_and(|its| its.eq_ignore_ascii_case(own)));
        let port_matches = self.port.is_none_or(|own| origin.port == Some(own));
        scheme_matches && port_matches && self.matches_host(&origin.host.to_ascii_lowercase())
    }

    fn matches_host(&self, host: &str) -> bool {
        match self.host.strip_prefix("*.") {
            Some(domain) => host
                .strip_suffix(domain)
                .is_some_and(|below| below.is_empty() || below.ends_with('.')),
            None => host == self.host,
        }
    }
}

/// The parts of a `scheme://host:port`; a missing port is that of the scheme.
struct Address<'a> {
    scheme: Option<&'a str>,
    host: &'a str,
    port: Option<u16>,
}

impl<'a> Address<'a> {
    fn parse(text: &'a str) -> Option<Address<'a>> {
        let (scheme, rest) = match text.split_once("//")? {
            ("", rest) => (None, rest),
            (scheme, rest) => (Some(scheme.strip_suffix(':')?), rest),
        };
        let authority = rest.split(['/', '?', '#']).next()?;
        let authority = authority.rsplit_once('@').map_or(authority, |(_user, host)| host);
        // An IPv6 address has its colons in brackets, before the port.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port.parse().ok()?)),
            _ => (authority, scheme.and_then(default_port)),
        };
        (!host.is_empty()).then_some(Address { scheme, host, port })
    }

    fn is_at(&self, own: &Address<'_>) -> bool {
        let default = self.scheme.and_then(default_port);
        self.host.eq_ignore_ascii_case(own.host)
            && self.port.filter(|port| Some(*port) != default)
                == own.port.filter(|port| ![80, 443].contains(port))
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    if scheme.eq_ignore_ascii_case("http") {
        return Some(80);
    }
    scheme.eq_ignore_ascii_case("https").then_some(443)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_an_origin_is_always_allowed() {
        for policy in [OriginPolicy::Any, OriginPolicy::SameHost, OriginPolicy::List(Vec::new())] {
            assert!(policy.allows(None, "example.com"), "{policy:?}");
        }
    }

    #[test]
    fn an_origin_without_a_host_is_refused_where_origins_are_checked() {
        for origin in ["null", "", "about:blank", "http://", "file:///a"] {
            assert!(!OriginPolicy::SameHost.allows(Some(origin), ""), "{origin}");
            assert!(!list(&["//example.com"]).allows(Some(origin), ""), "{origin}");
            assert!(OriginPolicy::Any.allows(Some(origin), ""), "{origin}");
        }
    }

    #[test]
    fn the_same_host_has_the_same_name_and_port_with_any_scheme() {
        let same = |origin, host| OriginPolicy::SameHost.allows(Some(origin), host);
        assert!(same("http://localhost:4000", "localhost:4000"));
        assert!(same("https://localhost:4000", "localhost:4000"));
        assert!(same("https://example.com", "Example.com"));
        assert!(same("http://example.com", "example.com"));
        assert!(same("https://example.com:443", "example.com:80"));
        assert!(same("http://[::1]:4000", "[::1]:4000"));
        assert!(same("http://[::1]", "[::1]:80"));
        assert!(!same("http://example.com:4000", "example.com"));
        assert!(!same("https://example.com", "example.com:4000"));
        assert!(!same("http://example.com:443", "example.com"));
        assert!(!same("https://sub.example.com", "example.com"));
        assert!(!same("https://example.com.evil.org", "example.com"));
        assert!(!same("http://localhost:4000", "127.0.0.1:4000"));
        assert!(!same("http://localhost:99999", "localhost:99999"));
    }

    #[test]
    fn a_listed_origin_may_leave_out_scheme_and_port() {
        let allows = |pattern: &str, origin| list(&[pattern]).allows(Some(origin), "");
        assert!(allows("//other.com", "http://other.com:4000"));
        assert!(allows("//other.com", "https://other.com"));
        assert!(allows("//other.com:4000", "http://other.com:4000"));
        assert!(!allows("//other.com:4000", "http://other.com"));
        assert!(allows("https://other.com", "https://other.com"));
        assert!(!allows("https://other.com", "http://other.com"));
        assert!(!allows("https://other.com", "https://other.com:4000"));
        assert!(!allows("//other.com", "https://another.com"));
    }

    #[test]
    fn a_star_matches_the_domain_and_its_subdomains() {
        let policy = list(&["//nothing.org", "//*.Other.com"]);
        let allows = |origin| policy.allows(Some(origin), "");
        assert!(allows("https://other.com"));
        assert!(allows("https://a.b.other.COM"));
        assert!(!allows("https://another.com"));
        assert!(!allows("https://other.com.evil.org"));
    }

    #[test]
    fn a_pattern_without_a_host_is_an_error() {
        for text in ["other.com", "https://", "//:4000", "", "//other.com:port", "https//a"] {
            let error = OriginPatternError { text: text.to_owned() };
            assert_eq!(text.parse::<OriginPattern>(), Err(error), "{text}");
        }
    }

    fn list(patterns: &[&str]) -> OriginPolicy {
        OriginPolicy::List(patterns.iter().map(|pattern| pattern.parse().unwrap()).collect())
    }
}
