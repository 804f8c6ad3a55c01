//! Nodes of a DAG: links to other blocks, and data.
//!
//! A decoded node encodes to the same bytes, so its CID can be recomputed. All importers write
//! links before data, but decoders must accept data before links, so the node keeps this order. Any
//! other ambiguity is rejected: repeated, unordered or unknown fields, and varints that are not
//! minimal.

use bytes::Bytes;

use crate::protobuf::{self, Fields, ProtobufError, Value};
use crate::{Cid, CidError};

/// Largest number of links of a node: more than fit into the largest block with sha2-256 CIDs.
///
/// Only links with short identity CIDs could exceed it, and would take 15 times their size in
/// memory.
pub const LINKS_MAX: usize = 65_536;

/// A link from a node to a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub cid: Cid,
    /// The name of a directory's entry; empty in files. `None` if the field is absent.
    pub name: Option<String>,
    /// The total bytes of all blocks below the link, as the importer counted them. It is a hint and
    /// is not verified. `None` if the field is absent.
    pub tsize: Option<u64>,
}

/// The order of the two fields of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldOrder {
    /// The order of all importers today, and of nodes with only one of the fields.
    #[default]
    LinksFirst,
    /// An order that decoders must accept.
    DataFirst,
}

/// A node of links and data.
///
/// ```
/// use watchfire_content::dag_pb::Node;
///
/// let node = Node::decode(&vec![0x0a, 2, b'h', b'i'].into()).unwrap();
/// assert_eq!(node.data.as_deref(), Some(&b"hi"[..]));
/// assert_eq!(node.encode(), [0x0a, 2, b'h', b'i']);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The links, in their encoded order.
    pub links: Vec<Link>,
    /// The data, for example an encoded [`UnixFs`](crate::unixfs::UnixFs).
    pub data: Option<Bytes>,
    /// The order of links and data.
    pub order: FieldOrder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DagPbError {
    #[error(transparent)]
    Protobuf(#[from] ProtobufError),
    #[error("unknown field {field} of wire type {wire_type} in a node")]
    NodeField { field: u64, wire_type: u8 },
    #[error("unknown field {field} of wire type {wire_type} in a link")]
    LinkField { field: u64, wire_type: u8 },
    #[error("the node's fields are interleaved or repeated")]
    NodeOrder,
    #[error("field {field} of a link is repeated or out of order")]
    LinkOrder { field: u64 },
    #[error("a link has no CID")]
    LinkWithoutCid,
    #[error("invalid CID of a link: {0}")]
    LinkCid(CidError),
    #[error("the name of a link is not UTF-8")]
    LinkName,
    #[error("a node has more than {max} links, which is the limit")]
    TooManyLinks { max: usize },
}

impl From<CidError> for DagPbError {
    fn from(cause: CidError) -> Self {
        DagPbError::LinkCid(cause)
    }
}

impl Node {
    /// Decodes all of `bytes`. The data shares them.
    pub fn decode(bytes: &Bytes) -> Result<Self, DagPbError> {
        let mut node = Node::default();
        let mut links_ended = false;
        for field in Fields::new(bytes) {
            match field? {
                (1, Value::Bytes(_)) if node.data.is_some() => return Err(DagPbError::NodeOrder),
                (1, Value::Bytes(data)) => {
                    links_ended = !node.links.is_empty();
                    node.data = Some(bytes.slice_ref(data));
                }
                (2, Value::Bytes(_)) if links_ended => return Err(DagPbError::NodeOrder),
                (2, Value::Bytes(_)) if node.links.len() == LINKS_MAX => {
                    return Err(DagPbError::TooManyLinks { max: LINKS_MAX });
                }
                (2, Value::Bytes(link)) => {
                    if node.data.is_some() {
                        node.order = FieldOrder::DataFirst;
                    }
                    node.links.push(Link::decode(link)?);
                }
                (field, value) => {
                    return Err(DagPbError::NodeField { field, wire_type: value.wire_type() });
                }
            }
        }
        Ok(node)
    }

    /// Encodes the node, with the links in their order. Links of a directory must already be sorted
    /// by name.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        if self.order == FieldOrder::DataFirst {
            self.encode_data(&mut bytes);
        }
        for link in &self.links {
            link.encode_field(&mut bytes);
        }
        if self.order == FieldOrder::LinksFirst {
            self.encode_data(&mut bytes);
        }
        bytes
    }

    fn encode_data(&self, bytes: &mut Vec<u8>) {
        if let Some(data) = &self.data {
            protobuf::encode_field(1, Value::Bytes(data), bytes);
        }
    }

    /// Returns the length of the encoded node.
    pub fn encoded_len(&self) -> usize {
        let links = self.links.iter().map(Link::field_len);
        let data = self.data.as_ref().map_or(0, |data| protobuf::bytes_field_len(data.len()));
        links.sum::<usize>() + data
    }
}

impl Link {
    fn decode(bytes: &[u8]) -> Result<Self, DagPbError> {
        let (mut cid, mut name, mut tsize, mut last_field) = (None, None, None, 0);
        for field in Fields::new(bytes) {
            let (field, value) = field?;
            match (field, value) {
                (1..=3, _) if field <= last_field => return Err(DagPbError::LinkOrder { field }),
                (1, Value::Bytes(bytes)) => cid = Some(Cid::decode(bytes)?),
                (2, Value::Bytes(text)) => {
                    name = Some(str::from_utf8(text).map_err(|_| DagPbError::LinkName)?.to_owned());
                }
                (3, Value::Varint(bytes)) => tsize = Some(bytes),
                (field, value) => {
                    return Err(DagPbError::LinkField { field, wire_type: value.wire_type() });
                }
            }
            last_field = field;
        }
        Ok(Link { cid: cid.ok_or(DagPbError::LinkWithoutCid)?, name, tsize })
    }

    /// Appends the link as a field of a node.
    fn encode_field(&self, bytes: &mut Vec<u8>) {
        bytes.push(2 << 3 | 2);
        crate::varint::encode(self.encoded_len() as u64, bytes);
        bytes.push(1 << 3 | 2);
        crate::varint::encode(self.cid.encoded_len() as u64, bytes);
        self.cid.encode_into(bytes);
        if let Some(name) = &self.name {
            protobuf::encode_field(2, Value::Bytes(name.as_bytes()), bytes);
        }
        if let Some(tsize) = self.tsize {
            protobuf::encode_field(3, Value::Varint(tsize), bytes);
        }
    }

    /// Returns the length of the link as a field of a node.
    pub(crate) fn field_len(&self) -> usize {
        protobuf::bytes_field_len(self.encoded_len())
    }

    fn encoded_len(&self) -> usize {
        protobuf::bytes_field_len(self.cid.encoded_len())
            + self.name.as_ref().map_or(0, |name| protobuf::bytes_field_len(name.len()))
            + self.tsize.map_or(0, protobuf::varint_field_len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, Multihash};

    fn link(name: Option<&str>, tsize: Option<u64>) -> Link {
        let cid = Cid::v1(Codec::RAW, Multihash::sha2_256(b"x"));
        Link { cid, name: name.map(str::to_owned), tsize }
    }

    fn decoded(bytes: &[u8]) -> Result<Node, DagPbError> {
        Node::decode(&Bytes::copy_from_slice(bytes))
    }

    /// Encodes a node with one link of these encoded fields.
    fn with_link(fields: &[u8]) -> Vec<u8> {
        [&[0x12, fields.len() as u8], fields].concat()
    }

    #[test]
    fn nodes_with_any_fields_in_either_order_are_decoded_again() {
        let links = vec![link(Some("a"), Some(300)), link(Some(""), None), link(None, Some(0))];
        for order in [FieldOrder::LinksFirst, FieldOrder::DataFirst] {
            let node = Node { links: links.clone(), data: Some("data".into()), order };
            let bytes = node.encode();
            assert_eq!(bytes.len(), node.encoded_len());
            assert_eq!(decoded(&bytes), Ok(node));
        }
        let only_links = Node { links, ..Node::default() };
        assert_eq!(decoded(&only_links.encode()), Ok(only_links));
        let empty_data = Node { data: Some(Bytes::new()), ..Node::default() };
        assert_eq!(decoded(&empty_data.encode()), Ok(empty_data));
        assert_eq!(decoded(&[]), Ok(Node::default()));
    }

    #[test]
    fn links_are_encoded_before_data_by_default() {
        let node = Node {
            links: vec![link(None, None)],
            data: Some("x".into()),
            order: FieldOrder::default(),
        };
        assert_eq!(node.encode()[0], 0x12);
    }

    #[test]
    fn repeated_and_interleaved_fields_are_rejected() {
        let link = with_link(&[0x0a, 4, 1, 0x55, 0, 0]);
        assert_eq!(decoded(&[0x0a, 0, 0x0a, 0]), Err(DagPbError::NodeOrder));
        let around = [&link[..], &[0x0a, 0], &link].concat();
        assert_eq!(decoded(&around), Err(DagPbError::NodeOrder));
        let name_first = with_link(&[0x12, 0, 0x0a, 4, 1, 0x55, 0, 0]);
        assert_eq!(decoded(&name_first), Err(DagPbError::LinkOrder { field: 1 }));
        let twice = with_link(&[0x0a, 4, 1, 0x55, 0, 0, 0x18, 1, 0x18, 1]);
        assert_eq!(decoded(&twice), Err(DagPbError::LinkOrder { field: 3 }));
    }

    #[test]
    fn fields_that_are_unknown_or_of_another_wire_type_are_rejected() {
        assert_eq!(
            decoded(&[0x1a, 0]),
            Err(DagPbError::NodeField { field: 3, wire_type: 2 }),
            "a node's third field"
        );
        assert_eq!(decoded(&[0x08, 0]), Err(DagPbError::NodeField { field: 1, wire_type: 0 }));
        let tsize_as_bytes = with_link(&[0x0a, 4, 1, 0x55, 0, 0, 0x1a, 0]);
        assert_eq!(decoded(&tsize_as_bytes), Err(DagPbError::LinkField { field: 3, wire_type: 2 }));
    }

    #[test]
    fn a_link_without_a_valid_cid_and_name_is_rejected() {
        assert_eq!(decoded(&with_link(&[])), Err(DagPbError::LinkWithoutCid));
        assert_eq!(
            decoded(&with_link(&[0x0a, 4, 1, 0x55, 0x13, 0])),
            Err(DagPbError::LinkCid(CidError::Hash { code: 0x13 }))
        );
        assert_eq!(
            decoded(&with_link(&[0x0a, 4, 1, 0x55, 0, 0, 0x12, 1, 0xff])),
            Err(DagPbError::LinkName)
        );
    }

    #[test]
    fn the_number_of_links_is_limited() {
        let link = with_link(&[0x0a, 4, 1, 0x55, 0, 0]);
        assert_eq!(decoded(&link.repeat(LINKS_MAX)).unwrap().links.len(), LINKS_MAX);
        let max = LINKS_MAX;
        assert_eq!(decoded(&link.repeat(max + 1)), Err(DagPbError::TooManyLinks { max }));
    }
}
