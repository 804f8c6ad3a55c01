use std::net::{IpAddr, SocketAddr};

/// The longest answer, in bytes. A request may have only 20.
pub const RESPONSE_BYTES_MAX: usize = 80;

const HEADER_BYTES: usize = 20;
const BINDING_REQUEST: u16 = 0x0001;
const BINDING_SUCCESS: u16 = 0x0101;
const BINDING_ERROR: u16 = 0x0111;
/// Distinguishes STUN from its predecessor (RFC 3489) and from other protocols on the same port.
const MAGIC_COOKIE: u32 = 0x2112_a442;

const XOR_MAPPED_ADDRESS: u16 = 0x0020;
const ERROR_CODE: u16 = 0x0009;
const UNKNOWN_ATTRIBUTES: u16 = 0x000a;
const FINGERPRINT: u16 = 0x8028;
const FINGERPRINT_XOR: u32 = 0x5354_554e;
const FINGERPRINT_BYTES: usize = 8;
/// Attributes from this number on are optional: unknown ones are ignored.
const OPTIONAL_FROM: u16 = 0x8000;
/// Attributes of authentication, which are accepted and ignored: USERNAME, MESSAGE-INTEGRITY,
/// REALM, NONCE, MESSAGE-INTEGRITY-SHA256, PASSWORD-ALGORITHM, USERHASH.
const CREDENTIALS: [u16; 7] = [0x0006, 0x0008, 0x0014, 0x0015, 0x001c, 0x001d, 0x001e];
/// Unknown attributes that an answer names at most.
const UNKNOWN_NAMED_MAX: usize = 8;
const UNKNOWN_REASON: &[u8] = b"Unknown Attribute";

/// A request for the sender's own address (RFC 8489, section 3).
///
/// ```
/// use watchfire_pages::stun::BindingRequest;
///
/// let bytes = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], b"any 12 bytes"].concat();
/// let request = BindingRequest::parse(&bytes).unwrap();
/// let answer = request.answer("192.0.2.1:32853".parse().unwrap());
/// assert_eq!(&answer[..4], [0x01, 0x01, 0, 12]);
/// assert_eq!(&answer[8..20], b"any 12 bytes");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingRequest {
    transaction: [u8; 12],
    /// Unknown attributes that the sender requires, the first [`UNKNOWN_NAMED_MAX`].
    unknown: Vec<u16>,
    has_fingerprint: bool,
}

/// Why a datagram is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It has no header of RFC 5389 or later.
    #[error("not a STUN message")]
    NotStun,
    /// It is a STUN message of another type: a response, an indication or another method.
    #[error("it is a STUN message of type {kind:#06x}, not a Binding request")]
    NotBinding { kind: u16 },
    /// Its length, or that of an attribute, does not match its bytes.
    #[error("the attributes do not match the message's length")]
    BadLength,
    /// Its FINGERPRINT does not match its bytes, or is not the last attribute.
    #[error("wrong fingerprint")]
    BadFingerprint,
}

impl BindingRequest {
    pub fn parse(datagram: &[u8]) -> Result<Self, ParseError> {
        let Some((header, mut attributes)) = datagram.split_first_chunk::<HEADER_BYTES>() else {
            return Err(ParseError::NotStun);
        };
        let kind = u16::from_be_bytes([header[0], header[1]]);
        let len = usize::from(u16::from_be_bytes([header[2], header[3]]));
        // The first two bits distinguish STUN from other protocols.
        if kind >> 14 != 0 || header[4..8] != MAGIC_COOKIE.to_be_bytes() {
            return Err(ParseError::NotStun);
        }
        if kind != BINDING_REQUEST {
            return Err(ParseError::NotBinding { kind });
        }
        if len != attributes.len() || !len.is_multiple_of(4) {
            return Err(ParseError::BadLength);
        }
        let mut request = BindingRequest {
            transaction: header[8..].try_into().expect("12 of 20 bytes are left"),
            unknown: Vec::new(),
            has_fingerprint: false,
        };
        while let Some((head, rest)) = attributes.split_first_chunk::<4>() {
            let kind = u16::from_be_bytes([head[0], head[1]]);
            let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
            let (value, rest) =
                rest.split_at_checked(len.next_multiple_of(4)).ok_or(ParseError::BadLength)?;
            if kind == FINGERPRINT {
                let before = &datagram[..datagram.len() - attributes.len()];
                // It covers all before it, so it must be the last one (RFC 8489, section 14.7).
                if !rest.is_empty() || len != 4 || value != fingerprint(before) {
                    return Err(ParseError::BadFingerprint);
                }
                request.has_fingerprint = true;
            } else if kind < OPTIONAL_FROM && !CREDENTIALS.contains(&kind) {
                request.note_unknown(kind);
            }
            attributes = rest;
        }
        Ok(request)
    }

    fn note_unknown(&mut self, kind: u16) {
        if self.unknown.len() < UNKNOWN_NAMED_MAX && !self.unknown.contains(&kind) {
            self.unknown.push(kind);
        }
    }

    /// The answer with this address, or an error that names unknown attributes.
    pub fn answer(&self, from: SocketAddr) -> Vec<u8> {
        let is_error = !self.unknown.is_empty();
        let mut answer = Vec::with_capacity(RESPONSE_BYTES_MAX);
        let kind = if is_error { BINDING_ERROR } else { BINDING_SUCCESS };
        answer.extend(kind.to_be_bytes());
        answer.extend([0; 2]); // The length is set below.
        answer.extend(MAGIC_COOKIE.to_be_bytes());
        answer.extend(self.transaction);
        if is_error {
            let code: [u8; 4] = [0, 0, 4, 20];
            attribute(&mut answer, ERROR_CODE, &[&code, UNKNOWN_REASON].concat());
            let unknown: Vec<u8> =
                self.unknown.iter().flat_map(|kind| kind.to_be_bytes()).collect();
            attribute(&mut answer, UNKNOWN_ATTRIBUTES, &unknown);
        } else {
            attribute(&mut answer, XOR_MAPPED_ADDRESS, &self.mapped(from));
        }
        let tail_bytes = if self.has_fingerprint { FINGERPRINT_BYTES } else { 0 };
        let len = answer.len() + tail_bytes - HEADER_BYTES;
        answer[2..4].copy_from_slice(&u16::try_from(len).expect("short").to_be_bytes());
        if self.has_fingerprint {
            let print = fingerprint(&answer);
            attribute(&mut answer, FINGERPRINT, &print);
        }
        debug_assert!(answer.len() <= RESPONSE_BYTES_MAX, "{} bytes", answer.len());
        answer
    }

    /// XOR-MAPPED-ADDRESS: the mask keeps NATs from rewriting the address in the payload.
    fn mapped(&self, from: SocketAddr) -> Vec<u8> {
        let mut mask = MAGIC_COOKIE.to_be_bytes().to_vec();
        mask.extend(self.transaction);
        // A socket for both families sees IPv4 addresses as mapped IPv6 addresses.
        let (family, address) = match from.ip().to_canonical() {
            IpAddr::V4(address) => (1, address.octets().to_vec()),
            IpAddr::V6(address) => (2, address.octets().to_vec()),
        };
        let masked =
            |bytes: &[u8]| bytes.iter().zip(&mask).map(|(a, b)| a ^ b).collect::<Vec<u8>>();
        [&[0, family][..], &masked(&from.port().to_be_bytes()), &masked(&address)].concat()
    }
}

fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend(kind.to_be_bytes());
    message.extend(u16::try_from(value.len()).expect("values are short").to_be_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// The value of a FINGERPRINT after these bytes; the header's length already includes it.
fn fingerprint(before: &[u8]) -> [u8; 4] {
    (crc32(before) ^ FINGERPRINT_XOR).to_be_bytes()
}

/// CRC-32 as in ISO 3309. Bitwise, because messages are short and few have a fingerprint.
fn crc32(bytes: &[u8]) -> u32 {
    let sum = bytes.iter().fold(u32::MAX, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 }
        })
    });
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSACTION: [u8; 12] = *b"\xb7\xe7\xa7\x01\xbc\x34\xd6\x86\xfa\x87\xdf\xae";

    fn request(attributes: &[u8]) -> Vec<u8> {
        let mut bytes = BINDING_REQUEST.to_be_bytes().to_vec();
        bytes.extend((attributes.len() as u16).to_be_bytes());
        bytes.extend(MAGIC_COOKIE.to_be_bytes());
        bytes.extend(TRANSACTION);
        bytes.extend(attributes);
        bytes
    }

    fn answer(attributes: &[u8], from: &str) -> Vec<u8> {
        let request = BindingRequest::parse(&request(attributes)).expect("it is a request");
        request.answer(from.parse().unwrap())
    }

    /// The addresses are those of RFC 5769, sections 2.2 and 2.3.
    #[test]
    fn the_address_is_masked_as_specified() {
        let ipv4 = answer(&[], "192.0.2.1:32853");
        assert_eq!(ipv4[20..], *b"\x00\x20\x00\x08\x00\x01\xa1\x47\xe1\x12\xa6\x43");
        let ipv6 = answer(&[], "[2001:db8:1234:5678:11:2233:4455:6677]:32853");
        let expected = b"\x00\x20\x00\x14\x00\x02\xa1\x47\
            \x01\x13\xa9\xfa\xa5\xd3\xf1\x79\xbc\x25\xf4\xb5\xbe\xd2\xb9\xd9";
        assert_eq!(ipv6[20..], *expected);
    }

    #[test]
    fn an_ipv4_address_seen_as_ipv6_is_returned_as_ipv4() {
        assert_eq!(answer(&[], "[::ffff:192.0.2.1]:32853"), answer(&[], "192.0.2.1:32853"));
    }

    #[test]
    fn an_answer_carries_the_cookie_the_transaction_and_its_length() {
        let answer = answer(&[], "192.0.2.1:1");
        assert_eq!(answer[..8], [0x01, 0x01, 0, 12, 0x21, 0x12, 0xa4, 0x42]);
        assert_eq!(answer[8..20], TRANSACTION);
        assert_eq!(answer.len(), 32);
    }

    #[test]
    fn unknown_required_attributes_are_named_in_an_error() {
        // PRIORITY and ICE-CONTROLLING belong to ICE checks. SOFTWARE is optional.
        let check =
            b"\x00\x24\x00\x04\x6e\x00\x01\xff\x80\x2a\x00\x08\x93\x2f\xf9\xb1\x51\x26\x3b\x36\
            \x80\x22\x00\x03abc ";
        let answer = answer(check, "192.0.2.1:1");
        assert_eq!(answer[..2], BINDING_ERROR.to_be_bytes());
        assert_eq!(answer[20..28], [0, 9, 0, 21, 0, 0, 4, 20]);
        assert_eq!(answer[answer.len() - 8..], [0, 10, 0, 2, 0, 0x24, 0, 0]);
    }

    #[test]
    fn credentials_are_neither_required_nor_refused() {
        let username = b"\x00\x06\x00\x03bob\x00";
        assert_eq!(answer(username, "192.0.2.1:1")[..2], BINDING_SUCCESS.to_be_bytes());
    }

    /// The request of RFC 5769, section 2.1, whose fingerprint is the specification's own.
    #[test]
    fn a_fingerprint_is_verified_and_answered_with_a_fingerprint() {
        let sample = b"\x00\x01\x00\x58\x21\x12\xa4\x42\xb7\xe7\xa7\x01\xbc\x34\xd6\x86\xfa\x87\xdf\xae\
            \x80\x22\x00\x10STUN test client\
            \x00\x24\x00\x04\x6e\x00\x01\xff\
            \x80\x29\x00\x08\x93\x2f\xf9\xb1\x51\x26\x3b\x36\
            \x00\x06\x00\x09evtj:h6vY\x20\x20\x20\
            \x00\x08\x00\x14\x9a\xea\xa7\x0c\xbf\xd8\xcb\x56\x78\x1e\xf2\xb5\xb2\xd3\xf2\x49\xc1\xb5\x71\xa2\
            \x80\x28\x00\x04\xe5\x7a\x3b\xcf";
        let parsed = BindingRequest::parse(sample).expect("the specification's own sample");
        assert!(parsed.has_fingerprint);
        for at in [20, 40, sample.len() - 1] {
            let mut wrong = *sample;
            wrong[at] ^= 1;
            assert!(BindingRequest::parse(&wrong).is_err(), "byte {at} is not verified");
        }
        let answer = parsed.answer("192.0.2.1:1".parse().unwrap());
        let (before, print) = answer.split_at(answer.len() - FINGERPRINT_BYTES);
        assert_eq!(print[4..], fingerprint(before));
        assert_eq!(usize::from(answer[3]), answer.len() - HEADER_BYTES);
    }

    #[test]
    fn only_binding_requests_are_answered() {
        let good = request(&[]);
        assert_eq!(BindingRequest::parse(&[]), Err(ParseError::NotStun));
        assert_eq!(BindingRequest::parse(&good[..19]), Err(ParseError::NotStun));
        assert_eq!(BindingRequest::parse(&[&good[..], &[0]].concat()), Err(ParseError::BadLength));
        for kind in [BINDING_SUCCESS, BINDING_ERROR, 0x0011, 0x0003] {
            let other = [&kind.to_be_bytes(), &good[2..]].concat();
            assert_eq!(BindingRequest::parse(&other), Err(ParseError::NotBinding { kind }));
        }
        let mut classic = good.clone();
        classic[4] = 0;
        assert_eq!(BindingRequest::parse(&classic), Err(ParseError::NotStun));
        for cut in [&b"\x80\x22\x00\x05abcd"[..], b"\x80\x22\x00"] {
            assert_eq!(BindingRequest::parse(&request(cut)), Err(ParseError::BadLength), "{cut:?}");
        }
    }

    #[test]
    fn no_answer_is_longer_than_its_bound() {
        let many: Vec<u8> = (0..300_u16).flat_map(|n| [0x7f, n as u8, 0, 0]).collect();
        let mut longest = request(&many);
        longest.extend([0x80, 0x28, 0, 4]);
        let len = (longest.len() + 4 - HEADER_BYTES) as u16;
        longest[2..4].copy_from_slice(&len.to_be_bytes());
        let print = fingerprint(&longest[..longest.len() - 4]);
        longest.extend(print);
        let request = BindingRequest::parse(&longest).unwrap();
        let answer = request.answer("[2001:db8::1]:1".parse().unwrap());
        assert!(answer.len() <= RESPONSE_BYTES_MAX, "{} bytes", answer.len());
    }
}
