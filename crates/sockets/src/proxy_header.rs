//! The header of the PROXY protocol, versions 1 and 2, with which a TCP proxy names the client.
//!
//! The specification is HAProxy's `doc/proxy-protocol.txt`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Longest header of version 1, with its line end.
const V1_BYTES_MAX: usize = 107;

const V1_START: &[u8] = b"PROXY ";
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The part of a header of version 2 that has a fixed length.
const V2_FIXED_BYTES: usize = 16;

/// The first bytes of a connection, in which a proxy names the client.
///
/// ```
/// use watchfire_sockets::ProxyHeader;
///
/// let bytes = b"PROXY TCP4 192.0.2.7 198.51.100.1 51000 443\r\nGET / HTTP/1.1\r\n";
/// let (header, len) = ProxyHeader::parse(bytes).unwrap().unwrap();
/// assert_eq!(header.client, Some("192.0.2.7:51000".parse().unwrap()));
/// assert!(bytes[len..].starts_with(b"GET"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The client's address. `None`: the connection is the proxy's own, such as a health check, or
    /// the proxy does not know the client. The address of the connection then remains valid.
    pub client: Option<SocketAddr>,
}

/// The first bytes of a connection are not a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyHeaderError {
    #[error("the connection does not begin with a PROXY header")]
    Missing,
    #[error("the PROXY header of version 1 is invalid")]
    InvalidLine,
    #[error("the PROXY header has the unknown version or command {0:#04x}")]
    UnknownCommand(u8),
    #[error("the PROXY header has the unsupported address family {0:#04x}")]
    UnsupportedFamily(u8),
    #[error("the PROXY header declares {len} bytes, too few for its addresses")]
    TooShort {
        /// The declared length in bytes.
        len: usize,
    },
    #[error("the PROXY header has {len} bytes; at most {max} are accepted", max = ProxyHeader::BYTES_MAX)]
    TooLong {
        /// The declared length in bytes.
        len: usize,
    },
}

impl ProxyHeader {
    /// Longest accepted header in bytes, including the additional values of version 2.
    pub const BYTES_MAX: usize = 4096;

    /// Parses the first bytes of a connection. Returns the header and its length, or `None` if more
    /// bytes are needed.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, ProxyHeaderError> {
        if begins(bytes, V1_START) {
            return parse_v1(bytes);
        }
        match begins(bytes, V2_SIGNATURE) {
            true => parse_v2(bytes),
            false => Err(ProxyHeaderError::Missing),
        }
    }
}

/// Whether the bytes begin with `start`, as far as they go.
fn begins(bytes: &[u8], start: &[u8]) -> bool {
    bytes.iter().zip(start).all(|(byte, expected)| byte == expected)
}

fn parse_v1(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderError> {
    let window = &bytes[..bytes.len().min(V1_BYTES_MAX)];
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        let is_full = window.len() == V1_BYTES_MAX;
        return if is_full { Err(ProxyHeaderError::InvalidLine) } else { Ok(None) };
    };
    let line = str::from_utf8(&window[..end]).map_err(|_| ProxyHeaderError::InvalidLine)?;
    let client = v1_client(line).ok_or(ProxyHeaderError::InvalidLine)?;
    Ok(Some((ProxyHeader { client }, end + 2)))
}

/// The client of a line of version 1. The outer `None` means that the line is invalid.
fn v1_client(line: &str) -> Option<Option<SocketAddr>> {
    let mut words = line.split(' ').skip(1);
    match words.next()? {
        // A receiver must ignore the rest of the line.
        "UNKNOWN" => Some(None),
        "TCP4" => v1_addresses::<Ipv4Addr>(words).map(Some),
        "TCP6" => v1_addresses::<Ipv6Addr>(words).map(Some),
        _ => None,
    }
}

/// The source of `<source> <destination> <source port> <destination port>`.
fn v1_addresses<'a, A: FromStr + Into<IpAddr>>(
    mut words: impl Iterator<Item = &'a str>,
) -> Option<SocketAddr> {
    let mut next_address = || words.next()?.parse::<A>().ok();
    let (source, _destination) = (next_address()?, next_address()?);
    let mut next_port = || words.next().and_then(port);
    let (source_port, _destination_port) = (next_port()?, next_port()?);
    words.next().is_none().then(|| canonical(source.into(), source_port))
}

/// A port in decimal digits. `u16` alone would also accept a plus sign.
fn port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn parse_v2(bytes: &[u8]) -> Result<Option<(ProxyHeader, usize)>, ProxyHeaderError> {
    let Some((fixed, rest)) = bytes.split_at_checked(V2_FIXED_BYTES) else { return Ok(None) };
    let (command, family) = (fixed[12], fixed[13]);
    let len = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let addresses = match (command, family) {
        // A receiver must skip the addresses of its proxy's own connection.
        (0x20, _) | (0x21, 0x00) => Addresses::None,
        (0x21, 0x11) => Addresses::V4,
        (0x21, 0x21) => Addresses::V6,
        (0x21, family) => return Err(ProxyHeaderError::UnsupportedFamily(family)),
        (command, _) => return Err(ProxyHeaderError::UnknownCommand(command)),
    };
    if V2_FIXED_BYTES + len > ProxyHeader::BYTES_MAX {
        return Err(ProxyHeaderError::TooLong { len: V2_FIXED_BYTES + len });
    }
    if len < addresses.bytes() {
        return Err(ProxyHeaderError::TooShort { len });
    }
    if rest.len() < len {
        return Ok(None);
    }
    let client = addresses.source(rest);
    Ok(Some((ProxyHeader { client }, V2_FIXED_BYTES + len)))
}

/// The addresses of a header of version 2: source, destination, source port, destination port.
#[derive(Clone, Copy)]
enum Addresses {
    None,
    V4,
    V6,
}

impl Addresses {
    fn bytes(self) -> usize {
        match self {
            Addresses::None => 0,
            Addresses::V4 => 12,
            Addresses::V6 => 36,
        }
    }

    fn source(self, bytes: &[u8]) -> Option<SocketAddr> {
        let (ip, port_at) = match self {
            Addresses::None => return None,
            Addresses::V4 => (IpAddr::from(*bytes.first_chunk::<4>()?), 8),
            Addresses::V6 => (IpAddr::from(*bytes.first_chunk::<16>()?), 32),
        };
        let port = bytes.get(port_at..)?.first_chunk()?;
        Some(canonical(ip, u16::from_be_bytes(*port)))
    }
}

fn canonical(ip: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(ip.to_canonical(), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let len = (body.len() as u16).to_be_bytes();
        [&V2_SIGNATURE[..], &[command, family], &len, body].concat()
    }

    const V4_BODY: [u8; 12] = [192, 0, 2, 7, 198, 51, 100, 1, 0xc7, 0x38, 1, 0xbb];

    fn v6_body(source: &str) -> Vec<u8> {
        let source = source.parse::<Ipv6Addr>().unwrap().octets();
        [&source[..], &[0; 16], &[0xc7, 0x38, 1, 0xbb]].concat()
    }

    fn client(bytes: &[u8]) -> Option<SocketAddr> {
        let (header, len) = ProxyHeader::parse(bytes).unwrap().expect("it is complete");
        assert_eq!(len, bytes.len());
        header.client
    }

    fn at(text: &str) -> Option<SocketAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn both_versions_name_the_client() {
        let line = b"PROXY TCP4 192.0.2.7 198.51.100.1 51000 443\r\n";
        assert_eq!(client(line), at("192.0.2.7:51000"));
        let line = b"PROXY TCP6 2001:db8::7 2001:db8::1 51000 443\r\n";
        assert_eq!(client(line), at("[2001:db8::7]:51000"));
        assert_eq!(client(&v2(0x21, 0x11, &V4_BODY)), at("192.0.2.7:51000"));
        assert_eq!(client(&v2(0x21, 0x21, &v6_body("2001:db8::7"))), at("[2001:db8::7]:51000"));
    }

    #[test]
    fn an_ipv4_address_in_ipv6_form_is_an_ipv4_address() {
        let line = b"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:198.51.100.1 51000 443\r\n";
        assert_eq!(client(line), at("192.0.2.7:51000"));
        assert_eq!(client(&v2(0x21, 0x21, &v6_body("::ffff:192.0.2.7"))), at("192.0.2.7:51000"));
    }

    #[test]
    fn the_proxys_own_connections_and_unknown_clients_have_no_client() {
        assert_eq!(client(b"PROXY UNKNOWN\r\n"), None);
        assert_eq!(client(b"PROXY UNKNOWN ffff:f...f:ffff anything 65535 x\r\n"), None);
        assert_eq!(client(&v2(0x20, 0x00, &[])), None);
        assert_eq!(client(&v2(0x20, 0x11, &V4_BODY)), None);
        assert_eq!(client(&v2(0x20, 0x31, &[7; 216])), None);
        assert_eq!(client(&v2(0x21, 0x00, b"skipped")), None);
    }

    #[test]
    fn additional_values_are_skipped() {
        let body = [&V4_BODY[..], &[0x04, 0, 3, 1, 2, 3], &[0xff; 200]].concat();
        assert_eq!(client(&v2(0x21, 0x11, &body)), at("192.0.2.7:51000"));
    }

    #[test]
    fn every_cut_needs_more_bytes_and_later_bytes_are_left() {
        let long = [&V4_BODY[..], &[0; 300]].concat();
        let line = b"PROXY TCP4 192.0.2.7 198.51.100.1 51000 443\r\n".to_vec();
        for header in [line, v2(0x21, 0x11, &long), v2(0x20, 0, &[])] {
            for cut in 0..header.len() {
                assert_eq!(ProxyHeader::parse(&header[..cut]), Ok(None), "cut at {cut}");
            }
            let more = [&header[..], b"\r\nPROXY "].concat();
            assert_eq!(ProxyHeader::parse(&more).unwrap().unwrap().1, header.len());
        }
    }

    #[test]
    fn an_invalid_line_is_an_error() {
        for line in [
            "PROXY TCP4 192.0.2.7 198.51.100.1 51000 443 \r\n",
            "PROXY TCP4  192.0.2.7 198.51.100.1 51000 443\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 51000\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 +1000 443\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 65536 443\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1  443\r\n",
            "PROXY TCP4 192.0.2.256 198.51.100.1 51000 443\r\n",
            "PROXY TCP4 2001:db8::7 2001:db8::1 51000 443\r\n",
            "PROXY TCP6 192.0.2.7 198.51.100.1 51000 443\r\n",
            "PROXY UDP4 192.0.2.7 198.51.100.1 51000 443\r\n",
            "PROXY tcp4 192.0.2.7 198.51.100.1 51000 443\r\n",
            "PROXY \r\n",
            "PROXY \u{0}\r\n",
        ] {
            let parsed = ProxyHeader::parse(line.as_bytes());
            assert_eq!(parsed, Err(ProxyHeaderError::InvalidLine), "{line:?}");
        }
        let endless = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 93]].concat();
        assert_eq!(endless.len(), V1_BYTES_MAX);
        assert_eq!(ProxyHeader::parse(&endless), Err(ProxyHeaderError::InvalidLine));
        assert_eq!(ProxyHeader::parse(&endless[..106]), Ok(None));
        let bytes = b"PROXY UNKNOWN \xff\xfe\r\n";
        assert_eq!(ProxyHeader::parse(bytes), Err(ProxyHeaderError::InvalidLine));
    }

    #[test]
    fn bytes_that_are_no_header_are_an_error_at_once() {
        for bytes in ["G", "GET / HTTP/1.1\r\n", "\u{16}\u{3}\u{1}", "PROXX", "\r\n\r\n\r"] {
            let parsed = ProxyHeader::parse(bytes.as_bytes());
            assert_eq!(parsed, Err(ProxyHeaderError::Missing), "{bytes:?}");
        }
        assert_eq!(ProxyHeader::parse(b""), Ok(None));
    }

    #[test]
    fn a_wrong_version_command_family_or_length_is_an_error() {
        let error = |bytes: &[u8]| ProxyHeader::parse(bytes).unwrap_err();
        for command in [0x01, 0x11, 0x22, 0x2f, 0x31, 0xff] {
            let expected = ProxyHeaderError::UnknownCommand(command);
            assert_eq!(error(&v2(command, 0x11, &V4_BODY)), expected);
        }
        for family in [0x01, 0x10, 0x12, 0x22, 0x31, 0x32, 0x41, 0xff] {
            let expected = ProxyHeaderError::UnsupportedFamily(family);
            assert_eq!(error(&v2(0x21, family, &[0; 216])), expected);
        }
        let expected = ProxyHeaderError::TooShort { len: 11 };
        assert_eq!(error(&v2(0x21, 0x11, &V4_BODY[..11])), expected);
        let expected = ProxyHeaderError::TooShort { len: 35 };
        assert_eq!(error(&v2(0x21, 0x21, &[0; 35])), expected);
        // The length is refused before the bytes arrive.
        let expected = ProxyHeaderError::TooLong { len: ProxyHeader::BYTES_MAX + 1 };
        assert_eq!(error(&v2(0x21, 0x11, &[0; 4081])[..16]), expected);
        assert_eq!(error(&v2(0x20, 0x00, &[0; 4081])[..16]), expected);
        assert!(ProxyHeader::parse(&v2(0x21, 0x11, &[0; 4080])).unwrap().is_some());
    }
}
