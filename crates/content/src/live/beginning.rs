use bytes::Bytes;

use super::fields::{FieldReader, NodeKind, begin, write_name};
use super::{LiveError, NODE_BYTES_MAX};
use crate::dag_pb::Node;
use crate::{Block, Version};

/// The first node of a live page. Its CID is the page's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The public key of the publisher.
    pub key: [u8; 32],
    /// The time at which the page began, as the publisher claims, in milliseconds since 1970.
    pub time_ms: u64,
    /// May be empty.
    pub title: String,
}

impl Beginning {
    /// Creates the block of the node. Fails if the title is too long.
    pub fn block(&self) -> Result<Block, LiveError> {
        let mut data = begin(NodeKind::Beginning);
        data.extend(self.key);
        data.extend(self.time_ms.to_be_bytes());
        write_name(&self.title, &mut data)?;
        let node = Node { data: Some(data.into()), ..Node::default() };
        Ok(Block::dag_pb(Version::V1, node.encode().into()).expect("the node is short"))
    }

    /// Decodes the bytes of a block. [`LiveError::NotLive`] means that the page is not live.
    pub fn decode(bytes: &Bytes) -> Result<Self, LiveError> {
        if bytes.len() > NODE_BYTES_MAX {
            return Err(LiveError::NotLive);
        }
        let node = Node::decode(bytes).map_err(|_| LiveError::NotLive)?;
        let data = node.data.as_deref().filter(|_| node.links.is_empty());
        let mut fields = FieldReader::open(data.ok_or(LiveError::NotLive)?, NodeKind::Beginning)?;
        Ok(Beginning {
            key: fields.array()?,
            time_ms: u64::from_be_bytes(fields.array()?),
            title: fields.name()?,
        })
    }
}
