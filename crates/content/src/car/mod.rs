//! Content-addressable archives (CAR), version 1.
//!
//! An archive is a header with its roots, followed by one section for each block. To write an
//! archive, write [`header`], and for each block [`section_head`] and the bytes of the block. In
//! the order of [`Walk`](crate::Walk) the archive is identical to an export of kubo. [`CarReader`]
//! reads archives.
//!
//! ```
//! use watchfire_content::car::{self, CarItem, CarReader};
//! use watchfire_content::Block;
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

pub fn header(roots: &[Cid]) -> Vec<u8> {
    let header = header::encode(roots);
    let mut bytes = Vec::with_capacity(varint::VARINT_BYTES_MAX + header.len());
    varint::encode(header.len() as u64, &mut bytes);
    bytes.extend_from_slice(&header);
    bytes
}

/// Returns the bytes of a section before the bytes of `block`.
pub fn section_head(block: &Block) -> Vec<u8> {
    let cid_len = block.cid().encoded_len();
    let mut bytes = Vec::with_capacity(varint::VARINT_BYTES_MAX + cid_len);
    varint::encode((cid_len + block.bytes().len()) as u64, &mut bytes);
    block.cid().encode_into(&mut bytes);
    bytes
}
