//! The signals of two peers that connect directly, parsed from untrusted JSON. Their format is
//! specified in `docs/reference/protocols/page.md`.

use serde::{Deserialize, Serialize};

/// The longest signal in bytes that the server forwards.
const SIGNAL_BYTES_MAX: usize = 16 << 10;
/// The longest description. A description of a data channel alone has some hundreds of bytes.
const SDP_BYTES_MAX: usize = 8 << 10;
const CANDIDATE_BYTES_MAX: usize = 512;
const CANDIDATES_MAX: usize = 16;
/// The addresses of a sender and the one that its router forwards, and the length of each.
pub(super) const ADDRESSES_MAX: usize = 9;
const ADDRESS_BYTES_MAX: usize = 256;
const CERTIFICATE_DIGITS: usize = 64;
const SECRET_DIGITS: usize = 32;

/// A signal. `call` identifies the attempt to connect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Signal {
    Offer {
        call: u32,
        sdp: String,
        /// The sender answers marked segments with receipts.
        #[serde(default)]
        receipts: bool,
    },
    Answer {
        call: u32,
        sdp: String,
        #[serde(default)]
        receipts: bool,
    },
    Candidates {
        call: u32,
        candidates: Vec<IceCandidate>,
    },
    HangUp {
        call: u32,
        reason: HangUpReason,
    },
    /// The sender accepts WebTransport at these addresses.
    WebTransport {
        call: u32,
        /// A host and a port each.
        addresses: Vec<String>,
        /// The SHA-256 of the sender's certificate, in hexadecimal.
        certificate: String,
        /// The path at which the session is accepted, in hexadecimal.
        secret: String,
    },
}

/// An address at which a peer may be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IceCandidate {
    /// In SDP syntax.
    pub candidate: String,
    #[serde(default)]
    pub sdp_mid: Option<String>,
    #[serde(default)]
    pub sdp_m_line_index: Option<u16>,
}

/// The reason for the end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HangUpReason {
    /// There is no connection to spare.
    Busy,
    Failed,
    /// The connection is not needed any more.
    Over,
}

impl Signal {
    pub(crate) fn call(&self) -> u32 {
        match self {
            Signal::Offer { call, .. }
            | Signal::Answer { call, .. }
            | Signal::Candidates { call, .. }
            | Signal::HangUp { call, .. }
            | Signal::WebTransport { call, .. } => *call,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a signal has only strings, numbers and booleans")
    }

    /// Returns `None` for bytes that no honest peer sends.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Signal> {
        if bytes.len() > SIGNAL_BYTES_MAX {
            return None;
        }
        let signal: Signal = serde_json::from_slice(bytes).ok()?;
        let is_valid = match &signal {
            Signal::Offer { sdp, .. } | Signal::Answer { sdp, .. } => is_of_data_alone(sdp),
            Signal::Candidates { candidates, .. } => {
                (1..=CANDIDATES_MAX).contains(&candidates.len())
                    && candidates.iter().all(|each| {
                        each.candidate.len() <= CANDIDATE_BYTES_MAX
                            && each.candidate.starts_with("candidate:")
                    })
            }
            Signal::HangUp { .. } => true,
            Signal::WebTransport { addresses, certificate, secret, .. } => {
                (1..=ADDRESSES_MAX).contains(&addresses.len())
                    && addresses.iter().all(|address| address.len() <= ADDRESS_BYTES_MAX)
                    && is_hexadecimal(certificate, CERTIFICATE_DIGITS)
                    && is_hexadecimal(secret, SECRET_DIGITS)
            }
        };
        is_valid.then_some(signal)
    }
}

/// Whether a description has one data section, and no audio or video.
fn is_of_data_alone(sdp: &str) -> bool {
    let mut media = sdp.lines().filter(|line| line.starts_with("m="));
    let is_data = media.next().is_some_and(|line| line.starts_with("m=application "));
    sdp.len() <= SDP_BYTES_MAX && sdp.starts_with("v=0") && is_data && media.next().is_none()
}

fn is_hexadecimal(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDP: &str = "v=0\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n";

    #[test]
    fn signals_are_the_json_of_the_web_client() {
        let offer = Signal::Offer { call: 7, sdp: SDP.to_owned(), receipts: true };
        let encoded = String::from_utf8(offer.encode()).unwrap();
        assert!(encoded.ends_with(r#"webrtc-datachannel\r\n","receipts":true}"#), "{encoded}");
        assert_eq!(Signal::decode(encoded.as_bytes()), Some(offer));
        let old = encoded.replace(r#","receipts":true"#, "");
        let expected = Signal::Offer { call: 7, sdp: SDP.to_owned(), receipts: false };
        assert_eq!(Signal::decode(old.as_bytes()), Some(expected), "of a program without receipts");
        let hang_up = Signal::HangUp { call: 1, reason: HangUpReason::Busy };
        assert_eq!(hang_up.encode(), br#"{"kind":"hang_up","call":1,"reason":"busy"}"#);
        let text = r#"{"kind":"candidates","call":4294967295,"candidates":
            [{"candidate":"candidate:1 1 udp 1 ::1 9 typ host","sdpMid":"0","sdpMLineIndex":0}]}"#;
        let candidates = vec![IceCandidate {
            candidate: "candidate:1 1 udp 1 ::1 9 typ host".to_owned(),
            sdp_mid: Some("0".to_owned()),
            sdp_m_line_index: Some(0),
        }];
        let expected = Signal::Candidates { call: u32::MAX, candidates };
        assert_eq!(Signal::decode(text.as_bytes()), Some(expected.clone()));
        assert_eq!(Signal::decode(&expected.encode()), Some(expected));
        let stream = Signal::WebTransport {
            call: 2,
            addresses: vec!["10.0.0.1:4433".to_owned(), "[fd00::1]:4433".to_owned()],
            certificate: "0f".repeat(32),
            secret: "a0".repeat(16),
        };
        let text = format!(
            r#"{{"kind":"web_transport","call":2,"addresses":["10.0.0.1:4433","[fd00::1]:4433"],"certificate":"{}","secret":"{}"}}"#,
            "0f".repeat(32),
            "a0".repeat(16)
        );
        assert_eq!(String::from_utf8(stream.encode()).unwrap(), text);
        assert_eq!(Signal::decode(text.as_bytes()), Some(stream));
    }

    #[test]
    fn invalid_signals_are_rejected() {
        let video = format!("{SDP}m=video 9 UDP/TLS/RTP/SAVPF 96\r\n");
        let long = format!("{SDP}{}", "a=x\r\n".repeat(2000));
        for sdp in [video.as_str(), &long, "", "v=0\r\n", "hello"] {
            let offer = Signal::Offer { call: 0, sdp: sdp.to_owned(), receipts: true };
            assert_eq!(Signal::decode(&offer.encode()), None, "{sdp:.20}");
        }
        for text in [
            "",
            "7",
            r#"{"kind":"offer","call":1}"#,
            r#"{"kind":"hang_up","call":4294967296,"reason":"over"}"#,
            r#"{"kind":"hang_up","call":1,"reason":"bored"}"#,
            r#"{"kind":"candidates","call":1,"candidates":[]}"#,
            r#"{"kind":"candidates","call":1,"candidates":[{"candidate":"x"}]}"#,
            r#"{"kind":"web_transport","call":1,"addresses":["a:1"],"certificate":"00","secret":"00"}"#,
        ] {
            assert_eq!(Signal::decode(text.as_bytes()), None, "{text}");
        }
        let many = Signal::WebTransport {
            call: 1,
            addresses: vec!["a:1".to_owned(); ADDRESSES_MAX + 1],
            certificate: "00".repeat(32),
            secret: "00".repeat(16),
        };
        assert_eq!(Signal::decode(&many.encode()), None);
        let padded = [&b" ".repeat(SIGNAL_BYTES_MAX)[..], b"{}"].concat();
        assert_eq!(Signal::decode(&padded), None);
    }
}
