//! The web origins that may open a socket.

use std::str::FromStr;

/// The origins that may connect. A request without an `Origin` header is always allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginPolicy {
    Any,
    /// Origins with the host and port to which the request was sent. The scheme is not compared,
    /// because a proxy may terminate TLS; nor are the ports 80 and 443 of either scheme.
    SameHost,
    /// Origins that match one of these.
    List(Vec<OriginPattern>),
    /// Those of [`OriginPolicy::SameHost`], and origins that match one of these.
    SameHostOr(Vec<OriginPattern>),
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
        let is_same_host =
            || Address::parse(&format!("//{host}")).is_some_and(|own| origin.is_at(&own));
        let is_listed =
            |patterns: &[OriginPattern]| patterns.iter().any(|one| one.matches(&origin));
        match self {
            OriginPolicy::Any => true,
            OriginPolicy::SameHost => is_same_host(),
            OriginPolicy::List(patterns) => is_listed(patterns),
            OriginPolicy::SameHostOr(patterns) => is_same_host() || is_listed(patterns),
        }
    }
}

/// Whether a request on loopback to this host and port is one to this machine: the host is an address or `localhost`.
///
/// Anybody's domain may have the address 127.0.0.1. A page of such a domain is of the same host as its request to a server on the
/// visitor's own machine (DNS rebinding).
pub fn is_local_host(host: &str) -> bool {
    let host = format!("//{host}");
    let Some(Address { host: address, .. }) = Address::parse(&host) else { return false };
    let name = address.strip_suffix('.').unwrap_or(address).to_ascii_lowercase();
    let literal = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    name == "localhost"
        || name.ends_with(".localhost")
        || literal.unwrap_or(address).parse::<std::net::IpAddr>().is_ok()
}

/// `scheme://host:port`, where scheme and port are optional. The host may start with `*.`, for a
/// domain and its subdomains: `https://example.com`, `//example.com:4000`, `//*.example.com`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginPattern {
    scheme: Option<String>,
    host: String,
    port: Option<u16>,
}

/// No origin can match the text: it is not a scheme, a host and a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an origin looks like https://example.com, //example.com or //*.example.com, not {text:?}")]
pub struct OriginPatternError {
    pub text: String,
}

impl FromStr for OriginPattern {
    type Err = OriginPatternError;

    fn from_str(text: &str) -> Result<Self, OriginPatternError> {
        let can_match = |address: &Address<'_>| {
            let domain = address.host.strip_prefix("*.").unwrap_or(address.host);
            address.scheme.is_none_or(is_scheme)
                && is_host(domain)
                && has_no_more_than_an_origin(text)
        };
        let address = Address::parse(text).filter(can_match);
        let address = address.ok_or_else(|| OriginPatternError { text: text.to_owned() })?;
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

/// The parts of a `scheme://host:port`; a missing port is the default port of the scheme.
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

/// Whether an origin can have this scheme (RFC 3986, 3.1).
fn is_scheme(scheme: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(is_part)
}

/// Whether an origin can have this host. Browsers send names of other scripts in their ASCII form
/// (`xn--...`), so other characters match nothing. Nor does a `*` here.
fn is_host(host: &str) -> bool {
    if let Some(literal) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return literal.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    host.strip_suffix('.').unwrap_or(host).split('.').all(is_label)
}

/// An origin has no user, path, query or fragment. A `/` after the host is a habit, and harmless.
fn has_no_more_than_an_origin(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("//") else { return false };
    !rest.strip_suffix('/').unwrap_or(rest).contains(['/', '?', '#', '@'])
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
    fn a_pattern_that_no_origin_can_match_is_an_error() {
        for text in [
            "other.com",
            "https://",
            "//:4000",
            "",
            "//other.com:port",
            "https//a",
            "https://*",
            "//*",
            "*",
            "null",
            "https://*.",
            "https://*.*.com",
            "https://a*.com",
            "https://www.*.com",
            "https://a..com",
            "https://.com",
            "https://a b.com",
            "https://user@a.com",
            "https://a.com/path",
            "https://a.com?query",
            "ht_tp://a.com",
            "://a.com",
            "1a://a.com",
            "https://b\u{fc}cher.example",
            "https://[::1",
            "https://[a]",
            "https://a.com,https://b.com",
            "https://https://a.com",
            "same",
            "any",
        ] {
            let error = OriginPatternError { text: text.to_owned() };
            assert_eq!(text.parse::<OriginPattern>(), Err(error), "{text}");
        }
    }

    #[test]
    fn every_origin_of_a_browser_with_a_host_is_a_pattern_that_matches_it() {
        for origin in [
            "https://example.com",
            "http://localhost:4000",
            "http://[::1]:8080",
            "https://a_b.example",
            "https://xn--bcher-kva.example",
            "capacitor://localhost",
            "chrome-extension://abcdef",
            "http://192.168.0.7",
            "https://example.com.",
        ] {
            assert!(list(&[origin]).allows(Some(origin), ""), "{origin}");
        }
        assert!(list(&["https://example.com/"]).allows(Some("https://example.com"), ""));
    }

    #[test]
    fn the_same_host_and_other_origins_can_both_be_allowed() {
        let policy = OriginPolicy::SameHostOr(vec!["https://other.com".parse().unwrap()]);
        assert!(policy.allows(Some("https://own.com"), "own.com"));
        assert!(policy.allows(Some("https://other.com"), "own.com"));
        assert!(!policy.allows(Some("https://third.com"), "own.com"));
        assert!(!policy.allows(Some("null"), "own.com"));
    }

    #[test]
    fn addresses_and_localhost_name_this_machine_and_other_names_do_not() {
        for host in
            ["localhost", "LOCALHOST:4000", "a.localhost:4000", "localhost.", "127.0.0.1:80"]
        {
            assert!(is_local_host(host), "{host}");
        }
        assert!(is_local_host("[::1]:4000") && is_local_host("192.0.2.1"));
        for host in ["attacker.example:4000", "localhost.attacker.example", "alocalhost", "", "1"] {
            assert!(!is_local_host(host), "{host}");
        }
    }

    fn list(patterns: &[&str]) -> OriginPolicy {
        OriginPolicy::List(patterns.iter().map(|pattern| pattern.parse().unwrap()).collect())
    }
}
