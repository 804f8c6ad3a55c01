//! The host and port that a request names.

use std::net::Ipv6Addr;

/// Whether a text is a host with an optional port, as a `Host` header has it (RFC 9110, 7.2): a
/// name, an IPv4 address or an IPv6 address in brackets.
///
/// It is stricter than the grammar of RFC 3986 in one point: a comma is not part of a name. Programs on
/// the way join several `Host` headers with commas. A user before the host is not allowed.
pub fn is_host_and_port(text: &[u8]) -> bool {
    let (host, port) = match text.iter().position(|byte| *byte == b']') {
        Some(end) => text.split_at(end + 1),
        None => text.split_at(memchr::memchr(b':', text).unwrap_or(text.len())),
    };
    is_host(host) && (port.is_empty() || port.strip_prefix(b":").is_some_and(is_port))
}

fn is_host(host: &[u8]) -> bool {
    if let Some(literal) = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")) {
        return std::str::from_utf8(literal).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok());
    }
    let mut rest = host;
    while let [first, others @ ..] = rest {
        rest = match (first, others) {
            (b'%', [high, low, others @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                others
            }
            _ if first.is_ascii_alphanumeric() || b"-._~!$&'()*+;=".contains(first) => others,
            _ => return false,
        };
    }
    !host.is_empty()
}

/// A port may be empty (RFC 3986, 3.2.3).
fn is_port(port: &[u8]) -> bool {
    let digits = port.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(port).unwrap_or_default();
    port.is_empty() || (digits && text.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_an_optional_port() {
        for valid in [
            "example.org",
            "localhost:4000",
            "a_b.example:",
            "127.0.0.1:80",
            "[::1]",
            "[2001:db8::7]:443",
            "xn--bcher-kva.example",
            "caf%C3%A9.example",
            "EXAMPLE.org.",
            "a",
            "host:65535",
        ] {
            assert!(is_host_and_port(valid.as_bytes()), "{valid}");
        }
        for invalid in [
            "",
            ":80",
            "user@example.org",
            "user:secret@example.org",
            "a, b",
            "a,b",
            "a b",
            "a/b",
            "a?b",
            "a#b",
            "http://a",
            "host:http",
            "host:65536",
            "host:-1",
            "host:80:80",
            "::1",
            "[::1",
            "::1]",
            "[a]",
            "[::1]80",
            "[]",
            "[127.0.0.1]",
            "[fe80::1%25eth0]",
            "caf\u{e9}",
            "%4",
            "%zz",
            "a\\b",
            "a\"b",
            "<a>",
            "a\tb",
            "a\0b",
        ] {
            assert!(!is_host_and_port(invalid.as_bytes()), "{invalid}");
        }
    }
}
