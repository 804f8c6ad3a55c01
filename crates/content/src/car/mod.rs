//! Blocks one after the other in one stream: content-addressable archives (CAR), version 1.
//!
//! An archive is a header with its roots, and sections of one block each. To write one, send
//! [`header`], and for each block [`section_head`] and the block's bytes. In the order of
//! [`Walk`](crate::Walk) that is the archive that kubo exports, byte for byte. To read one, see
//! [`CarReader`].
//!
//! ```
//! use content::car::{self, CarItem, CarReader};
//! use content::Block;
//!
//! let block = Block::raw("hi".into())?;
//! let roots = [block.cid().clone()];
//! let archive = [&car::header(&roots)[..], &car::section_head(&block), block.bytes()].concat();
//!
//! let mut reader = CarReader::default();
//! reader.push(&archive);
//! assert_eq!(reader.next()?, Some(CarItem::Roots(roots.to_vec())));
//! assert_eq!(reader.next()?, Some(CarItem::Block(block)));
//! reader.finish()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod header;
mod reader;

use crate::{Block, Cid, varint};

pub use header::{CAR_HEADER_BYTES_MAX, HeaderError};
pub use reader::{CarError, CarItem, CarReader};

/// The start of an archive.
pub fn header(roots: &[Cid]) -> Vec<u8> {
    let header = header::encode(roots);
    let mut bytes = Vec::with_capacity(varint::VARINT_BYTES_MAX + header.len());
    varint::encode(header.len() as u64, &mut bytes);
    bytes.extend_from_slice(&header);
    bytes
}

/// What stands in an archive before the bytes of `block`.
pub fn section_head(block: &Block) -> Vec<u8> {
    let cid_len = block.cid().encoded_len();
    let mut bytes = Vec::with_capacity(varint::VARINT_BYTES_MAX + cid_len);
    varint::encode((cid_len + block.bytes().len()) as u64, &mut bytes);
    block.cid().encode_into(&mut bytes);
    bytes
}
