//! The client of a request that came through proxies.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;

use crate::authority::is_host_and_port;

/// The header with which proxies name the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardingHeader {
    /// `X-Forwarded-For`, with the host in `X-Forwarded-Host`.
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}

/// The networks of the proxies whose headers are believed.
///
/// Each proxy appends the address from which a request came to it. So the list is read from the
/// right, for as long as the address is that of a trusted proxy. Entries further left may be made
/// up by the client.
#[derive(Debug)]
pub struct ForwardingProxies {
    networks: Vec<IpNet>,
    header: ForwardingHeader,
}

/// An entry of `server.trusted_proxies` is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a network looks like 10.0.0.0/8, 192.0.2.1 or fd00::/8, not {text:?}")]
pub struct NetworkError {
    /// The entry.
    pub text: String,
}

/// The client of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct ForwardedClient<'a> {
    /// The client's address. The port is 0 if a proxy named the address.
    pub from: SocketAddr,
    /// The host and port to which the client sent the request.
    pub host: &'a str,
}

impl ForwardingProxies {
    /// The proxies of these networks, which set this header.
    pub fn new(networks: &[String], header: ForwardingHeader) -> Result<Self, NetworkError> {
        let networks = networks.iter().map(|text| network(text));
        let networks = networks.collect::<Result<_, _>>()?;
        Ok(ForwardingProxies { networks, header })
    }

    /// The client of a request from `peer`. `values` returns the values of a header, in the order
    /// of their lines.
    pub fn client<'a, V: Iterator<Item = &'a [u8]>>(
        &self,
        peer: SocketAddr,
        host: &'a str,
        values: impl Fn(&'static str) -> V,
    ) -> ForwardedClient<'a> {
        let mut client = ForwardedClient { from: peer, host };
        if !self.trusts(peer.ip()) {
            return client;
        }
        match self.header {
            ForwardingHeader::XForwardedFor => {
                for entry in entries(values("x-forwarded-for")) {
                    let Some(address) = address(entry) else { break };
                    client.from = SocketAddr::new(address, 0);
                    if !self.trusts(address) {
                        break;
                    }
                }
                // The rightmost host is the one that the nearest proxy names.
                let mut hosts = entries(values("x-forwarded-host"));
                let nearest = hosts.find(|host| !host.is_empty());
                client.host = nearest.filter(is_valid_host).unwrap_or(host);
            }
            ForwardingHeader::Forwarded => {
                for entry in quoted_entries(values("forwarded")) {
                    if let Some(host) = parameter(entry, "host").filter(is_valid_host) {
                        client.host = host;
                    }
                    let Some(address) = parameter(entry, "for").and_then(address) else { break };
                    client.from = SocketAddr::new(address, 0);
                    if !self.trusts(address) {
                        break;
                    }
                }
            }
        }
        client
    }

    /// Whether an address is that of a trusted proxy.
    pub fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(&address))
    }
}

/// Whether a proxy names a host as a `Host` header may (RFC 9112, 3.2). Any other text is ignored,
/// because the origin is compared with the host.
fn is_valid_host(host: &&str) -> bool {
    is_host_and_port(host.as_bytes())
}

/// Whether a header names the client for the server. Web pages of other origins may not send it.
pub fn is_forwarding_header(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    name == "forwarded" || name.starts_with("x-forwarded-")
}

fn network(text: &str) -> Result<IpNet, NetworkError> {
    let network = IpNet::from_str(text).or_else(|_| IpAddr::from_str(text).map(IpNet::from));
    network.map_err(|_| NetworkError { text: text.to_owned() })
}

/// The entries of a list header, from the last to the first.
fn entries<'a>(values: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a str> {
    let lines: Vec<&str> = values.map(readable_end).collect();
    lines.into_iter().rev().flat_map(|line| line.rsplit(',')).map(str::trim)
}

/// Like [`entries`], for lists whose entries may have quoted parts.
fn quoted_entries<'a>(values: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a str> {
    let lines: Vec<&str> = values.map(readable_end).collect();
    lines.into_iter().rev().flat_map(|line| rsplit_unquoted(line, b',')).map(str::trim)
}

/// The entries behind the last one that is not text. A client can send such an entry, and the proxy
/// appends the client's address to it.
fn readable_end(line: &[u8]) -> &str {
    let mut end = line;
    while let Err(error) = std::str::from_utf8(end) {
        let rest = &end[error.valid_up_to() + 1..];
        let next = rest.iter().position(|byte| *byte == b',').unwrap_or(rest.len());
        end = &rest[next..];
    }
    std::str::from_utf8(end).unwrap_or_default()
}

/// Splits at the separators outside quotes, from the last part to the first.
///
/// Quotes are counted from the right, because the text on the left comes from the client: a quote
/// there that is never closed must not hide the entry of the proxy.
fn rsplit_unquoted(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (bytes, mut is_quoted) = (text.as_bytes(), false);
        let is_escaped = |at: usize| {
            bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
        };
        let cut = (0..bytes.len()).rev().find(|&at| {
            if bytes[at] == b'"' && !is_escaped(at) {
                is_quoted = !is_quoted;
            }
            bytes[at] == separator && !is_quoted
        });
        match cut {
            Some(at) => {
                rest = Some(&text[..at]);
                Some(&text[at + 1..])
            }
            None => rest.take(),
        }
    })
}

/// An address with or without a port: `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let parsed = text.parse().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()));
    parsed.ok().or_else(|| bare?.parse().ok()).map(|address: IpAddr| address.to_canonical())
}

/// A parameter of an entry of `Forwarded`, without its quotes.
fn parameter<'a>(entry: &'a str, name: &str) -> Option<&'a str> {
    rsplit_unquoted(entry, b';').find_map(|pair| {
        let (key, value) = pair.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim().trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address and host of a request from `peer` with these header lines.
    fn client(header: ForwardingHeader, peer: &str, lines: &[(&str, &str)]) -> (String, String) {
        let networks = ["127.0.0.0/8", "10.0.0.0/8", "fd00::/8", "192.0.2.200"].map(str::to_owned);
        let proxies = ForwardingProxies::new(&networks, header).unwrap();
        let values = |name| {
            let lines = lines.iter().filter(move |line| line.0 == name);
            lines.map(|line| line.1.as_bytes())
        };
        let peer = SocketAddr::new(peer.parse().unwrap(), 5);
        let ForwardedClient { from, host } = proxies.client(peer, "own", values);
        (from.ip().to_string(), host.to_owned())
    }

    fn address_of(peer: &str, forwarded_for: &[&str]) -> String {
        let lines: Vec<_> = forwarded_for.iter().map(|value| ("x-forwarded-for", *value)).collect();
        client(ForwardingHeader::XForwardedFor, peer, &lines).0
    }

    #[test]
    fn the_rightmost_address_that_is_not_a_proxy_is_the_client() {
        assert_eq!(address_of("127.0.0.1", &["203.0.113.9"]), "203.0.113.9");
        assert_eq!(address_of("127.0.0.1", &["198.51.100.1, 203.0.113.9"]), "203.0.113.9");
        assert_eq!(address_of("127.0.0.1", &["203.0.113.9, 10.1.2.3"]), "203.0.113.9");
        assert_eq!(address_of("127.0.0.1", &["203.0.113.9", "192.0.2.200"]), "203.0.113.9");
        assert_eq!(address_of("fd00::1", &["[2001:db8::1]:443"]), "2001:db8::1");
        assert_eq!(address_of("127.0.0.1", &["203.0.113.9:1234,10.0.0.1"]), "203.0.113.9");
        assert_eq!(address_of("127.0.0.1", &["10.0.0.2, 10.0.0.1"]), "10.0.0.2");
        assert_eq!(address_of("::ffff:127.0.0.1", &["::ffff:203.0.113.9"]), "203.0.113.9");
    }

    #[test]
    fn a_header_from_an_address_that_is_not_a_proxy_changes_nothing() {
        assert_eq!(address_of("203.0.113.9", &["198.51.100.1"]), "203.0.113.9");
        let lines = [("x-forwarded-host", "evil.example"), ("forwarded", "for=198.51.100.1")];
        for header in [ForwardingHeader::XForwardedFor, ForwardingHeader::Forwarded] {
            let expected = ("203.0.113.9".to_owned(), "own".to_owned());
            assert_eq!(client(header, "203.0.113.9", &lines), expected);
        }
    }

    #[test]
    fn an_invalid_entry_ends_the_list() {
        assert_eq!(address_of("127.0.0.1", &["203.0.113.9, unknown"]), "127.0.0.1");
        assert_eq!(address_of("127.0.0.1", &["203.0.113.9, x, 10.0.0.1"]), "10.0.0.1");
        assert_eq!(address_of("127.0.0.1", &[""]), "127.0.0.1");
        assert_eq!(address_of("127.0.0.1", &[",,,,"]), "127.0.0.1");
        let long = "a,".repeat(1_000_000);
        assert_eq!(address_of("127.0.0.1", &[&long]), "127.0.0.1");
    }

    #[test]
    fn an_entry_that_is_not_text_does_not_hide_the_address_behind_it() {
        let networks = ["127.0.0.0/8".to_owned()];
        let peer = SocketAddr::new("127.0.0.1".parse().unwrap(), 5);
        for (header, name, line, expected) in [
            (
                ForwardingHeader::XForwardedFor,
                "x-forwarded-for",
                &b"\xff, 203.0.113.9"[..],
                "203.0.113.9",
            ),
            (ForwardingHeader::XForwardedFor, "x-forwarded-for", b"\xff", "127.0.0.1"),
            (ForwardingHeader::XForwardedFor, "x-forwarded-for", b"\xff203.0.113.9", "127.0.0.1"),
            (
                ForwardingHeader::XForwardedFor,
                "x-forwarded-for",
                b"a\xff,\xff\xfe, 203.0.113.9",
                "203.0.113.9",
            ),
            (ForwardingHeader::Forwarded, "forwarded", b"for=\xff, for=203.0.113.9", "203.0.113.9"),
        ] {
            let proxies = ForwardingProxies::new(&networks, header).unwrap();
            let values = |asked: &str| (asked == name).then_some(line).into_iter();
            let client = proxies.client(peer, "own", values);
            assert_eq!(client.from.ip().to_string(), expected, "{line:?}");
        }
    }

    #[test]
    fn a_forwarded_host_that_is_not_valid_is_ignored() {
        for host in
            ["user@evil.example", "evil.example/x", "evil.example:99999", "http://a", "[::1"]
        {
            let lines = [("x-forwarded-host", host)];
            let found = client(ForwardingHeader::XForwardedFor, "127.0.0.1", &lines).1;
            assert_eq!(found, "own", "{host}");
            let line = format!("for=203.0.113.9;host=\"{host}\"");
            let lines = [("forwarded", &*line)];
            assert_eq!(client(ForwardingHeader::Forwarded, "127.0.0.1", &lines).1, "own", "{host}");
        }
        let lines = [("x-forwarded-host", "evil.example, own.example:4000")];
        let found = client(ForwardingHeader::XForwardedFor, "127.0.0.1", &lines).1;
        assert_eq!(found, "own.example:4000");
    }

    fn address_in_forwarded(values: &[&str]) -> String {
        let lines: Vec<_> = values.iter().map(|value| ("forwarded", *value)).collect();
        client(ForwardingHeader::Forwarded, "127.0.0.1", &lines).0
    }

    #[test]
    fn tokens_that_are_no_address_end_the_list_at_the_nearest_proxy() {
        let tokens = [
            "unknown",
            "_hidden",
            "_SEVKISEK",
            "-",
            "\"",
            "\"\"",
            "[",
            "[]",
            "[::1",
            "::1]",
            "[::1]]",
            "1.2.3",
            "1.2.3.4.5",
            "256.1.1.1",
            "01.2.3.4",
            "1.2.3.4:",
            "1.2.3.4:x",
            "1.2.3.4:99999",
            "fe80::1%eth0",
            ":::",
            "2001:db8::1::2",
            "0x7f000001",
            "2130706433",
            "localhost",
            "\u{e9}",
            "203.0.113.9 203.0.113.8",
            "'203.0.113.9'",
            "\0",
        ];
        for token in tokens {
            assert_eq!(address_of("127.0.0.1", &["203.0.113.9", token]), "127.0.0.1", "{token:?}");
            let far = format!("{token}, 10.0.0.1");
            assert_eq!(address_of("127.0.0.1", &[&far]), "10.0.0.1", "{token:?}");
            let near = format!("{token}, 203.0.113.9");
            assert_eq!(address_of("127.0.0.1", &[&near]), "203.0.113.9", "{token:?}");
            for value in [format!("for={token}"), format!("for=\"{token}\""), token.to_owned()] {
                let values = ["for=203.0.113.9", &value];
                assert_eq!(address_in_forwarded(&values), "127.0.0.1", "{value:?}");
                let near = format!("{value}, for=203.0.113.9");
                assert_eq!(address_in_forwarded(&[&near]), "203.0.113.9", "{near:?}");
            }
        }
    }

    #[test]
    fn a_quoted_separator_does_not_end_an_entry() {
        for value in [
            r#"for=203.0.113.9;host="a,for=198.51.100.1""#,
            r#"host="a;for=198.51.100.1";for=203.0.113.9"#,
            r#"host="a\",for=198.51.100.1";for="203.0.113.9:80""#,
            r#"host="a\\";for=203.0.113.9"#,
            r#"for="198.51.100.1, for=203.0.113.9"#,
            r#"for=198.51.100.1;host=", for=203.0.113.9;host="a.example""#,
            r#"FOR="203.0.113.9";proto=https"#,
        ] {
            assert_eq!(address_in_forwarded(&[value]), "203.0.113.9", "{value}");
        }
        let value = r#"for="[2001:db8:cafe::17]:4711";proto=https;by=203.0.113.43"#;
        assert_eq!(address_in_forwarded(&[value]), "2001:db8:cafe::17");
    }

    #[test]
    fn only_the_configured_header_is_read() {
        let lines = [
            ("x-forwarded-for", "203.0.113.1"),
            ("x-forwarded-host", "x.example"),
            (
                "forwarded",
                r#"for=198.51.100.7;host=a.example, For="[2001:db8::2]:80"; host="b.example""#,
            ),
        ];
        let of = |header| client(header, "127.0.0.1", &lines);
        let expected = |address: &str, host: &str| (address.to_owned(), host.to_owned());
        assert_eq!(of(ForwardingHeader::XForwardedFor), expected("203.0.113.1", "x.example"));
        assert_eq!(of(ForwardingHeader::Forwarded), expected("2001:db8::2", "b.example"));
    }

    #[test]
    fn an_entry_that_is_not_a_network_is_an_error() {
        for text in ["", "localhost", "10.0.0.0/33", "10.0.0"] {
            let error =
                ForwardingProxies::new(&[text.to_owned()], ForwardingHeader::Forwarded).err();
            assert_eq!(error, Some(NetworkError { text: text.to_owned() }));
        }
    }

    #[test]
    fn web_pages_may_not_name_the_client() {
        assert!(is_forwarding_header("Forwarded") && is_forwarding_header(" X-Forwarded-Host"));
        assert!(!is_forwarding_header("x-phoenix-authtoken"));
    }
}
