use std::fmt;
use std::str::FromStr;

/// A peer of a page or grid: 64 random bits, assigned by the server at the join.
///
/// JSON has it as 16 lower-case hexadecimal digits, binary frames as 8 bytes, big-endian. It does
/// not identify a person, and lives as long as its channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

impl PeerId {
    /// The form in binary frames.
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// Reads the form in binary frames.
    pub const fn from_bytes(bytes: [u8; 8]) -> Self {
        PeerId(u64::from_be_bytes(bytes))
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer {self}")
    }
}

/// The text is not 16 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerIdError;

impl fmt::Display for PeerIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a peer id is 16 lower-case hexadecimal digits")
    }
}

impl std::error::Error for PeerIdError {}

impl FromStr for PeerId {
    type Err = PeerIdError;

    fn from_str(text: &str) -> Result<Self, PeerIdError> {
        let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if text.len() != 16 || !digits {
            return Err(PeerIdError);
        }
        u64::from_str_radix(text, 16).map(PeerId).map_err(|_| PeerIdError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_id_reads_back_what_it_wrote() {
        let peer = PeerId(0x00ab_cdef_0123_4567);
        assert_eq!(peer.to_string(), "00abcdef01234567");
        assert_eq!(peer.to_string().parse(), Ok(peer));
        assert_eq!(PeerId::from_bytes(peer.to_bytes()), peer);
    }

    #[test]
    fn anything_but_sixteen_hexadecimal_digits_is_refused() {
        for text in ["", "00ab", "00ABCDEF01234567", "+0abcdef01234567", "00abcdef0123456g"] {
            assert_eq!(text.parse::<PeerId>(), Err(PeerIdError), "{text}");
        }
    }
}
