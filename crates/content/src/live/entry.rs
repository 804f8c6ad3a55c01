use bytes::Bytes;

use super::fields::{FieldReader, NodeKind, begin, write_name};
use super::{ENTRIES_MAX, LiveError, NODE_BYTES_MAX, linked_numbers};
use crate::dag_pb::{Link, Node};
use crate::{Block, Cid, Codec, HashFunction, Version};

/// The meaning of the content of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text = 0,
    /// A file or a directory.
    File = 1,
}

/// A node that a publisher has appended to a live page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// From 1.
    pub number: u32,
    /// As the publisher claims, in milliseconds since 1970.
    pub time_ms: u64,
    pub form: Form,
    /// The name of the file or directory; empty for a text.
    pub name: String,
    /// The root of the content.
    pub content: Cid,
    /// The size of the blocks of the content, as the publisher claims.
    pub content_bytes: u64,
    /// The earlier nodes with the numbers of [`linked_numbers`].
    pub earlier: Vec<Cid>,
}

impl Entry {
    /// Creates the block of the node.
    pub fn block(&self) -> Result<Block, LiveError> {
        self.check()?;
        let mut data = begin(NodeKind::Entry);
        data.extend(self.number.to_be_bytes());
        data.extend(self.time_ms.to_be_bytes());
        data.push(self.form as u8);
        write_name(&self.name, &mut data)?;
        let link = |cid: &Cid, tsize| Link { cid: cid.clone(), name: Some(String::new()), tsize };
        let content = link(&self.content, Some(self.content_bytes));
        let earlier = self.earlier.iter().map(|cid| link(cid, None));
        let links = [content].into_iter().chain(earlier).collect();
        let node = Node { links, data: Some(data.into()), ..Node::default() };
        Ok(Block::dag_pb(Version::V1, node.encode().into()).expect("the node is short"))
    }

    /// Decodes the bytes of a block.
    pub fn decode(bytes: &Bytes) -> Result<Self, LiveError> {
        if bytes.len() > NODE_BYTES_MAX {
            return Err(LiveError::NodeTooLong { len: bytes.len() });
        }
        let node = Node::decode(bytes)?;
        let data = node.data.as_deref().ok_or(LiveError::NotLive)?;
        let mut fields = FieldReader::open(data, NodeKind::Entry)?;
        let number = u32::from_be_bytes(fields.array()?);
        let time_ms = u64::from_be_bytes(fields.array()?);
        let form = match fields.array()? {
            [0] => Form::Text,
            [1] => Form::File,
            [form] => return Err(LiveError::UnknownForm { form }),
        };
        let name = fields.name()?;
        let mut links = node.links.into_iter();
        let (content, content_bytes) = match links.next() {
            Some(Link { cid, name: Some(name), tsize: Some(bytes) }) if name.is_empty() => {
                (cid, bytes)
            }
            _ => return Err(LiveError::Links { number }),
        };
        let earlier = links.map(|link| match link {
            Link { cid, name: Some(name), tsize: None } if name.is_empty() => Ok(cid),
            _ => Err(LiveError::Links { number }),
        });
        let earlier = earlier.collect::<Result<_, _>>()?;
        let entry = Entry { number, time_ms, form, name, content, content_bytes, earlier };
        entry.check()?;
        Ok(entry)
    }

    /// Returns the numbers and the CIDs of the earlier nodes that the entry links to, the highest first.
    pub fn links(&self) -> impl Iterator<Item = (u32, &Cid)> {
        linked_numbers(self.number).zip(&self.earlier)
    }

    fn check(&self) -> Result<(), LiveError> {
        let number = self.number;
        if !(1..=ENTRIES_MAX).contains(&number) {
            return Err(LiveError::Number { number });
        }
        if self.form == Form::Text && !self.name.is_empty() {
            return Err(LiveError::TextWithName);
        }
        if linked_numbers(number).count() != self.earlier.len() {
            return Err(LiveError::Links { number });
        }
        // A text is one block.
        let is_block = self.form != Form::Text || self.content.codec() == Codec::RAW;
        let has_node_cids = self.earlier.iter().all(|cid| cid.codec() == Codec::DAG_PB);
        if !is_block
            || !has_node_cids
            || ![&self.content].into_iter().chain(&self.earlier).all(is_supported)
        {
            return Err(LiveError::UnsupportedCid);
        }
        Ok(())
    }
}

fn is_supported(cid: &Cid) -> bool {
    cid.version() == Version::V1 && cid.hash().function() == HashFunction::Sha2_256
}
