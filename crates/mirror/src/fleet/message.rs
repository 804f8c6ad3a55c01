//! The requests and responses between the hosts of a fleet.
//!
//! ```text
//! message = length of the head (4 bytes, network order), head (JSON), body
//! ```
//!
//! Only a small blob and a manifest have a body.

use bytes::{BufMut as _, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use watchfire_fleet::Report;
use watchfire_p2p::{Multiaddr, PeerId};

use crate::oci::Digest;
use crate::proxy::Version;

pub(super) const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// The largest response in bytes: a manifest, or the hashes of the largest blob in one response.
pub(super) const RESPONSE_BYTES_MAX: u32 = 5 << 20;
pub(super) const ANNOUNCEMENTS_MAX: usize = 4_096;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// To the coordinator of a blob: the state of this host's download.
    Report {
        #[serde(with = "text")]
        digest: Digest,
        report: Report,
        /// The addresses at which other hosts reach this host.
        addresses: Vec<Multiaddr>,
        /// The receiver coordinates the blob even if it knows a closer host, because this host cannot
        /// reach that one.
        is_final: bool,
    },
    /// To the coordinator of a blob: this host fetches it no more.
    Leave {
        #[serde(with = "text")]
        digest: Digest,
    },
    /// To a coordinator and its successors: this host has these blobs and manifests completely.
    Announce { keys: Vec<String>, addresses: Vec<Multiaddr> },
    /// To a coordinator: which hosts have this?
    Holders {
        #[serde(with = "text")]
        digest: Digest,
        is_final: bool,
    },
    /// The hashes of a blob's blocks, as far as the receiver knows them. The receiver waits until it
    /// knows more than `after`.
    Hashes {
        #[serde(with = "text")]
        digest: Digest,
        /// The list of an earlier response, and how many of its hashes this host has.
        list: u64,
        after: usize,
        /// The asking host is of another region, and gets the hashes of a complete blob only.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_whole: bool,
        access: Option<AccessProof>,
    },
    /// From a host of another region: which hosts of the receiver's region have this?
    Find {
        #[serde(with = "text")]
        digest: Digest,
    },
    /// A whole blob of at most one block.
    Blob {
        #[serde(with = "text")]
        digest: Digest,
        access: Option<AccessProof>,
    },
    /// The CID of a public blob, while its registry is down.
    Cid {
        #[serde(with = "text")]
        digest: Digest,
    },
    /// The version of a file, while its server is down.
    File { url: String },
    /// A manifest: of a tag while the registry is down, of a digest at any time.
    Manifest {
        registry: String,
        repository: String,
        reference: String,
        /// The key of what the client accepts. An empty one, of an earlier version, gets no tag.
        #[serde(default)]
        accept: String,
        /// The receiver fetches the manifest of a digest that it does not have.
        #[serde(default)]
        fetches: bool,
        access: Option<AccessProof>,
    },
    /// Whether the registry lets the receiver pull a blob from a repository.
    Access {
        registry: String,
        repository: String,
        #[serde(with = "text")]
        digest: Digest,
        /// The receiver asks the registry if it does not know.
        asks: bool,
        access: Option<AccessProof>,
    },
}

impl Request {
    /// Whether the answer waits for nothing, and is short.
    pub(super) fn is_answered_at_once(&self) -> bool {
        match self {
            Request::Report { report, .. } => !report.wants_holder,
            Request::Leave { .. } | Request::Announce { .. } | Request::Holders { .. } => true,
            Request::Hashes { .. }
            | Request::Find { .. }
            | Request::Blob { .. }
            | Request::Manifest { .. }
            | Request::Access { .. }
            | Request::Cid { .. }
            | Request::File { .. } => false,
        }
    }
}

/// Proof that a host has the same credentials for a registry as the receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AccessProof {
    pub(super) registry: String,
    #[serde(with = "hash")]
    pub(super) proof: [u8; 32],
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Response {
    /// To [`Request::Report`].
    Assignment {
        leases: Vec<u32>,
        hosts: Vec<Contact>,
        holder: Option<Contact>,
        progress: u64,
        report_within_ms: u64,
    },
    /// This host knows one that is closer to the digest.
    Closer { hosts: Vec<Contact> },
    /// The request was carried out.
    Done,
    /// To [`Request::Holders`] and [`Request::Find`].
    Holders { hosts: Vec<Contact> },
    /// To [`Request::Hashes`]: the hashes that follow the first `after` of this list.
    Hashes {
        list: u64,
        hashes: Vec<BlockHash>,
        /// With the first hashes: the order in which a start reads the blocks. An earlier version sends none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        order: Vec<u32>,
    },
    /// To [`Request::Blob`]. The body is the blob.
    Blob,
    /// To [`Request::Cid`]; the size is that of the blob.
    Cid { cid: String, bytes: u64 },
    /// To [`Request::File`].
    File { version: Box<Version>, age_seconds: u64 },
    /// To [`Request::Manifest`]. The body is the manifest.
    Manifest { digest: String, media_type: String, age_seconds: u64 },
    /// To [`Request::Access`]: the registry said so that long ago, and the blob has this size.
    Access { age_seconds: u64, size: Option<u64> },
    /// The receiver does not have it, or may not send it to this host.
    Absent,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Contact {
    #[serde(with = "text")]
    pub(super) id: PeerId,
    pub(super) addresses: Vec<Multiaddr>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BlockHash(pub(super) u32, #[serde(with = "hash")] pub(super) [u8; 32]);

#[derive(Debug, thiserror::Error)]
pub(super) enum MessageError {
    #[error("invalid message of the fleet: the length of its head is wrong")]
    Length,
    #[error("invalid message of the fleet: {0}")]
    Json(serde_json::Error),
}

impl From<serde_json::Error> for MessageError {
    fn from(cause: serde_json::Error) -> Self {
        MessageError::Json(cause)
    }
}

pub(super) fn encode<T: Serialize>(head: &T, body: &[u8]) -> Bytes {
    let head = serde_json::to_vec(head).expect("a message has a JSON form");
    let mut bytes = BytesMut::with_capacity(4 + head.len() + body.len());
    bytes.put_u32(u32::try_from(head.len()).expect("a head is short"));
    bytes.put_slice(&head);
    bytes.put_slice(body);
    bytes.freeze()
}

/// Decodes a message into its head and its body.
pub(super) fn decode<T: for<'a> Deserialize<'a>>(
    bytes: &Bytes,
) -> Result<(T, Bytes), MessageError> {
    let (length, _) = bytes.split_first_chunk::<4>().ok_or(MessageError::Length)?;
    let end = 4 + u32::from_be_bytes(*length) as usize;
    let head = bytes.get(4..end).ok_or(MessageError::Length)?;
    Ok((serde_json::from_slice(head)?, bytes.slice(end..)))
}

mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

mod hash {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(hash: &[u8; 32], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD_NO_PAD.encode(hash))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(from)?;
        let bytes = STANDARD_NO_PAD.decode(text).map_err(D::Error::custom)?;
        bytes.try_into().map_err(|_| D::Error::custom("a hash has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_head_and_body() {
        let digest = Digest::sha256(b"a");
        let proof = AccessProof { registry: "a.example".into(), proof: [7; 32] };
        let request = Request::Blob { digest: digest.clone(), access: Some(proof.clone()) };
        let (decoded, body): (Request, Bytes) = decode(&encode(&request, b"")).unwrap();
        assert!(matches!(decoded, Request::Blob { digest: found, access }
            if found == digest && access == Some(proof)));
        assert!(body.is_empty());
        let (hashes, order) = (vec![BlockHash(1, [9; 32])], vec![5, 1]);
        let response = Response::Hashes { list: 3, hashes, order };
        let (decoded, body): (Response, Bytes) = decode(&encode(&response, b"body")).unwrap();
        assert!(matches!(decoded, Response::Hashes { list: 3, hashes, order }
            if hashes == [BlockHash(1, [9; 32])] && order == [5, 1]));
        assert_eq!(body, "body");
        let earlier = br#"{"hashes":{"list":1,"hashes":[]}}"#;
        let earlier = serde_json::from_slice(earlier).unwrap();
        assert!(matches!(earlier, Response::Hashes { order, .. } if order.is_empty()));
    }

    /// The heads of all requests and responses, as version 0.1.0 sends them.
    const REQUESTS: [&str; 9] = [
        r#"{"report":{"digest":"D","report":{"segments":8,"present":[[0,2]],"fetching":[3],"wanted_leases":1,"first":4,"wanted_hosts":8,"wants_holder":false,"is_stalled":true,"arrivals":5,"lag_ms":6},"addresses":["/ip4/192.0.2.1/tcp/5001"],"is_final":false}}"#,
        r#"{"leave":{"digest":"D"}}"#,
        r#"{"announce":{"keys":["D"],"addresses":["/ip4/192.0.2.1/tcp/5001"]}}"#,
        r#"{"holders":{"digest":"D","is_final":true}}"#,
        r#"{"hashes":{"digest":"D","list":1,"after":2,"access":{"registry":"a.example","proof":"H"}}}"#,
        r#"{"blob":{"digest":"D","access":null}}"#,
        r#"{"file":{"url":"https://a.example/b"}}"#,
        r#"{"manifest":{"registry":"a.example","repository":"b","reference":"v1","accept":"*/*","fetches":true,"access":null}}"#,
        r#"{"access":{"registry":"a.example","repository":"b","digest":"D","asks":true,"access":null}}"#,
    ];
    const RESPONSES: [&str; 10] = [
        r#"{"assignment":{"leases":[1],"hosts":[{"id":"P","addresses":[]}],"holder":null,"progress":7,"report_within_ms":1000}}"#,
        r#"{"closer":{"hosts":[{"id":"P","addresses":["/ip4/192.0.2.1/tcp/5001"]}]}}"#,
        r#""done""#,
        r#"{"holders":{"hosts":[]}}"#,
        r#"{"hashes":{"list":1,"hashes":[[0,"H"]]}}"#,
        r#""blob""#,
        r#"{"file":{"version":{"url":"https://a.example/b","etag":"\"x\"","length":1,"body_etag":null,"headers":{},"checked_at":2},"age_seconds":3}}"#,
        r#"{"manifest":{"digest":"D","media_type":"a/b","age_seconds":3}}"#,
        r#"{"access":{"age_seconds":3,"size":4}}"#,
        r#""absent""#,
    ];

    fn recorded(text: &str) -> serde_json::Value {
        let digest = Digest::sha256(b"a").to_string();
        let peer = "12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN";
        let hash = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc";
        let filled = [("D", digest.as_str()), ("P", peer), ("H", hash)]
            .iter()
            .fold(text.to_owned(), |text, (name, value)| {
                text.replace(&format!("\"{name}\""), &format!("\"{value}\""))
            });
        serde_json::from_str(&filled).unwrap()
    }

    /// Adds a member that this version does not know to each object.
    fn extended(value: &serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match value {
            Value::Array(all) => all.iter().map(extended).collect(),
            Value::Object(all) => {
                let all = all.iter().map(|(name, value)| {
                    // The names of headers are free.
                    let is_map = name == "headers";
                    (name.clone(), if is_map { value.clone() } else { extended(value) })
                });
                all.chain([("later".to_owned(), Value::from(1))]).collect()
            }
            other => other.clone(),
        }
    }

    /// Decodes a head, and encodes it again.
    fn again<T: Serialize + for<'a> Deserialize<'a>>(
        head: &serde_json::Value,
    ) -> serde_json::Value {
        let (decoded, _): (T, _) =
            decode(&encode(head, b"")).unwrap_or_else(|error| panic!("{error}: {head}"));
        serde_json::to_value(decoded).unwrap()
    }

    #[test]
    fn messages_of_other_versions_are_understood() {
        fn check<T: Serialize + for<'a> Deserialize<'a>>(texts: &[&str]) {
            for head in texts.iter().map(|text| recorded(text)) {
                assert_eq!(again::<T>(&head), head, "the format has changed");
                // The name of the message is the only member of the outer object.
                let later = match &head {
                    serde_json::Value::Object(all) => {
                        all.iter().map(|(name, of)| (name.clone(), extended(of))).collect()
                    }
                    other => other.clone(),
                };
                assert_eq!(again::<T>(&later), head, "a later version adds members");
            }
        }
        check::<Request>(&REQUESTS);
        check::<Response>(&RESPONSES);
        let older = recorded(r#"{"manifest":{"registry":"a","repository":"b","reference":"v1"}}"#);
        let (older, _): (Request, _) = decode(&encode(&older, b"")).unwrap();
        assert!(matches!(older, Request::Manifest { fetches: false, access: None, .. }));
        assert!(decode::<Request>(&encode(&"later", b"")).is_err());
    }

    #[test]
    fn damaged_messages_are_errors() {
        let good = encode(&Response::Done, b"");
        for bytes in
            [b"".as_slice(), b"\0\0\0\x05{}", b"\xff\xff\xff\xff{}", b"\0\0\0\x02{}", &good[..8]]
        {
            assert!(decode::<Response>(&Bytes::copy_from_slice(bytes)).is_err(), "{bytes:?}");
        }
        let short = br#"{"hashes":{"list":1,"hashes":[[1,"AAAA"]]}}"#;
        let mut bytes = BytesMut::new();
        bytes.put_u32(short.len() as u32);
        bytes.put_slice(short);
        assert!(decode::<Response>(&bytes.freeze()).is_err());
    }
}
