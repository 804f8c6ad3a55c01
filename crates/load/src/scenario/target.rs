use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};

/// More addresses of one name are not used.
const ADDRESSES_MAX: usize = 32;

/// A server that is put under load.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Host and port for the `Host` header.
    pub authority: String,
    /// The prefix of every path; empty, or `/…` without a slash at its end.
    pub prefix: String,
    /// The weight of this server compared with the others.
    pub weight: f64,
    /// Whether the connection uses TLS.
    pub(crate) is_tls: bool,
    /// Host and port to resolve, and the resolved addresses.
    host_and_port: String,
    addresses: Vec<SocketAddr>,
}

impl Target {
    /// Parses `ws://host:port/prefix`, or the same with `wss`, `http` or `https`.
    pub(crate) fn parse(url: &str, weight: f64) -> Result<Target, String> {
        let form = "use the form ws://localhost:4000";
        let (scheme, rest) = url.split_once("://").ok_or(format!("invalid URL; {form}"))?;
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "ws" | "http" => false,
            "wss" | "https" => true,
            _ => return Err(format!("{scheme} is not supported; use ws, wss, http or https")),
        };
        if let Some(other) =
            rest.chars().find(|one| !one.is_ascii_graphic() || "?#@".contains(*one))
        {
            return Err(format!(
                "invalid character {other:?} in the URL; {form}, with a path if needed"
            ));
        }
        let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = host_and_port(authority).ok_or_else(|| {
            format!("invalid host or port {authority:?} in the URL; {form} or ws://[::1]:4000")
        })?;
        let prefix = prefix.trim_end_matches('/').to_owned();
        let default = if is_tls { 443 } else { 80 };
        let host_and_port = format!("{host}:{}", port.unwrap_or(default));
        let authority = port.map_or(host.to_owned(), |port| format!("{host}:{port}"));
        let addresses = Vec::new();
        Ok(Target { authority, prefix, weight, is_tls, host_and_port, addresses })
    }

    /// Whether the same server is meant, whatever its weight and its prefix are.
    pub(crate) fn is_same_server(&self, other: &Target) -> bool {
        self.is_tls == other.is_tls && self.host_and_port.eq_ignore_ascii_case(&other.host_and_port)
    }

    /// The port of the server.
    pub(crate) fn port(&self) -> &str {
        self.host_and_port.rsplit_once(':').map_or("", |(_, port)| port)
    }

    /// The name of the server, without its port.
    pub(crate) fn host(&self) -> &str {
        let host = self.host_and_port.rsplit_once(':').map_or("", |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Resolves the name. With source addresses, only the addresses that these can reach are kept.
    pub(crate) fn resolve(&mut self, sources: &[IpAddr]) -> Result<(), String> {
        let found = self.host_and_port.to_socket_addrs();
        let found = found.map_err(|error| format!("{}: {error}", self.authority))?;
        self.addresses.clear();
        for address in found {
            if self.addresses.len() < ADDRESSES_MAX && !self.addresses.contains(&address) {
                self.addresses.push(address);
            }
        }
        if self.addresses.is_empty() {
            return Err(format!("{} has no address", self.authority));
        }
        let is_reached = |address: &SocketAddr| {
            sources.iter().any(|source| source.is_ipv4() == address.is_ipv4())
        };
        self.addresses.retain(|address| sources.is_empty() || is_reached(address));
        if self.addresses.is_empty() {
            return Err(format!(
                "{} cannot be reached from [sources] addresses: add one of its IP version there",
                self.authority
            ));
        }
        Ok(())
    }

    /// The resolved addresses, in the order of the resolver.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

/// The server of a whole URL, and the rest; `None` for a path.
pub(crate) fn whole_url(text: &str) -> Option<(&str, &str)> {
    let at = text.find("://").filter(|_| text.starts_with("http"))? + 3;
    let end = text[at..].find(['/', '?', '#']).map_or(text.len(), |end| at + end);
    Some(text.split_at(end))
}

/// The host, an IPv6 address with its brackets, and the port.
fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let end = authority.find(']').map_or(0, |end| end + 1);
    let (host, port) = match authority[end..].find(':') {
        Some(colon) => authority.split_at(end + colon),
        None => (authority, ""),
    };
    let port = match port.strip_prefix(':') {
        // RFC 3986, 3.2.3: an empty port is the default one.
        None | Some("") => None,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(digits.parse().ok()?)
        }
        Some(_) => return None,
    };
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains(['[', ']']),
    };
    is_host.then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_host_port_and_prefix() {
        let resolved = |url| {
            let mut target = Target::parse(url, 2.0).unwrap();
            target.resolve(&[]).unwrap();
            target
        };
        let target = resolved("ws://127.0.0.1:4000/live/");
        assert_eq!(
            (target.authority.as_str(), target.prefix.as_str()),
            ("127.0.0.1:4000", "/live")
        );
        assert_eq!(target.addresses(), [SocketAddr::from(([127, 0, 0, 1], 4000))]);
        assert_eq!(target.host(), "127.0.0.1");
        assert_eq!(resolved("http://127.0.0.1").addresses()[0].port(), 80);
        let target = resolved("http://[::1]:81");
        assert_eq!((target.addresses()[0].port(), target.host()), (81, "::1"));
    }

    #[test]
    fn a_target_keeps_the_addresses_that_the_sources_can_reach() {
        let mut target = Target::parse("http://[::1]:81", 1.0).unwrap();
        let (four, six) = ("127.0.0.1".parse().unwrap(), "::1".parse().unwrap());
        assert!(target.resolve(&[four]).unwrap_err().contains("[sources] addresses"));
        target.resolve(&[four, six]).unwrap();
        assert_eq!(target.addresses().len(), 1);
    }

    #[test]
    fn unsupported_schemes_are_rejected() {
        for url in ["localhost:4000", "ftp://127.0.0.1", "gopher://127.0.0.1", "WSX://127.0.0.1"] {
            assert!(Target::parse(url, 1.0).is_err(), "{url}");
        }
        for (url, port) in [("https://a", "443"), ("WSS://a:4443", "4443"), ("ws://a", "80")] {
            let target = Target::parse(url, 1.0).unwrap();
            assert_eq!((target.port(), target.is_tls), (port, port != "80"), "{url}");
        }
    }

    #[test]
    fn a_url_that_no_request_could_name_is_rejected() {
        for url in [
            "ws://127.0.0.1:x",
            "ws://127.0.0.1:99999",
            "ws://127.0.0.1:+80",
            "ws://::1:4000",
            "ws://[::1",
            "ws://[::1]x",
            "ws://[a]:1",
            "ws://",
            "ws://:4000",
            "ws:///a",
            "ws://user:password@127.0.0.1",
            "ws://127.0.0.1/a?b=c",
            "ws://127.0.0.1?b",
            "ws://127.0.0.1/a#b",
            "ws://127.0.0.1/a b",
            "ws://127.0.0.1/\u{e4}",
        ] {
            let error = Target::parse(url, 1.0).unwrap_err();
            assert!(error.contains("ws://localhost:4000"), "{url}: {error}");
        }
    }

    #[test]
    fn a_url_has_a_scheme_in_any_case_and_the_host_header_is_valid() {
        for (url, authority) in [
            ("HTTP://localhost:4000", "localhost:4000"),
            ("Ws://LOCALHOST", "LOCALHOST"),
            ("ws://127.0.0.1:", "127.0.0.1"),
            ("ws://127.0.0.1:0080/", "127.0.0.1:80"),
            ("ws://[::1]/a", "[::1]"),
            ("ws://[::1]:4000", "[::1]:4000"),
        ] {
            let target = Target::parse(url, 1.0).unwrap();
            assert_eq!(target.authority, authority, "{url}");
        }
    }
}
