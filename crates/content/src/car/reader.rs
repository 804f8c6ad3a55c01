use bytes::{Buf, Bytes, BytesMut};

use super::header::{self, CAR_HEADER_BYTES_MAX, HeaderError};
use crate::varint::{self, VarintError};
use crate::{BLOCK_BYTES_MAX, Block, BlockError, CID_BYTES_MAX, Cid, CidError};

const SECTION_BYTES_MAX: usize = CID_BYTES_MAX + BLOCK_BYTES_MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CarItem {
    /// The roots of the archive, which come first. Their blocks may be missing.
    Roots(Vec<Cid>),
    Block(Block),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CarError {
    #[error("invalid header of the archive: {0}")]
    Header(HeaderError),
    #[error("invalid length at byte {at} of the archive: {error}")]
    Length { at: u64, error: VarintError },
    #[error("{len} bytes at byte {at} of the archive exceed the limit of {max} bytes")]
    TooLong { at: u64, len: u64, max: usize },
    #[error("invalid section at byte {at} of the archive: {error}")]
    Cid { at: u64, error: CidError },
    #[error("invalid section at byte {at} of the archive: {error}")]
    Block { at: u64, error: BlockError },
    #[error("the archive is truncated in the section at byte {at}")]
    Truncated { at: u64 },
}

impl From<HeaderError> for CarError {
    fn from(cause: HeaderError) -> Self {
        CarError::Header(cause)
    }
}

/// Reads an archive in pieces of any size.
///
/// It holds the current piece and at most one section. After an error each call returns the same
/// error, because the start of the next section is unknown.
#[derive(Clone, Debug, Default)]
pub struct CarReader {
    unread: BytesMut,
    /// Bytes of the archive before `unread`.
    at: u64,
    has_header: bool,
}

impl CarReader {
    /// Adds the next bytes of the archive. Call [`CarReader::next`] until it returns `None` before
    /// the next call.
    pub fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// Returns the next complete item; `None` if more bytes are needed.
    #[expect(clippy::should_implement_trait, reason = "`None` is not the end")]
    pub fn next(&mut self) -> Result<Option<CarItem>, CarError> {
        let max = if self.has_header { SECTION_BYTES_MAX } else { CAR_HEADER_BYTES_MAX };
        let at = self.at;
        let (len, len_bytes) = match varint::decode(&self.unread) {
            Err(VarintError::Truncated) => return Ok(None),
            decoded => decoded.map_err(|error| CarError::Length { at, error })?,
        };
        if len > max as u64 {
            return Err(CarError::TooLong { at, len, max });
        }
        let end = len_bytes + len as usize;
        if self.unread.len() < end {
            self.unread.reserve(end - self.unread.len());
            return Ok(None);
        }
        let item = if self.has_header {
            self.block(len_bytes, end)?
        } else {
            CarItem::Roots(header::decode(&self.unread[len_bytes..end])?)
        };
        self.unread.advance(end);
        self.at += end as u64;
        self.has_header = true;
        Ok(Some(item))
    }

    fn block(&self, start: usize, end: usize) -> Result<CarItem, CarError> {
        let at = self.at;
        let section = &self.unread[start..end];
        let split = Cid::decode_start(section);
        let (cid, bytes) = split.map_err(|error| CarError::Cid { at, error })?;
        // A copy, so that a small block does not keep the whole piece in memory.
        let block = Block::verify(cid, Bytes::copy_from_slice(bytes));
        Ok(CarItem::Block(block.map_err(|error| CarError::Block { at, error })?))
    }

    /// Ends the archive. Fails if it is incomplete.
    pub fn finish(self) -> Result<(), CarError> {
        let is_complete = self.has_header && self.unread.is_empty();
        if is_complete { Ok(()) } else { Err(CarError::Truncated { at: self.at }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::car;

    fn archive(blocks: &[Block]) -> Vec<u8> {
        let roots = [blocks[0].cid().clone()];
        let mut bytes = car::header(&roots);
        for block in blocks {
            bytes.extend(car::section_head(block));
            bytes.extend_from_slice(block.bytes());
        }
        bytes
    }

    fn read(archive: &[u8], piece: usize) -> Result<Vec<CarItem>, CarError> {
        let mut reader = CarReader::default();
        let mut items = Vec::new();
        for piece in archive.chunks(piece) {
            reader.push(piece);
            while let Some(item) = reader.next()? {
                items.push(item);
            }
        }
        reader.finish()?;
        Ok(items)
    }

    fn blocks() -> Vec<Block> {
        ["one", "", "three"].map(|text| Block::raw(text.into()).unwrap()).to_vec()
    }

    #[test]
    fn blocks_are_read_from_pieces_of_any_size() {
        let bytes = archive(&blocks());
        let mut expected = vec![CarItem::Roots(vec![blocks()[0].cid().clone()])];
        expected.extend(blocks().into_iter().map(CarItem::Block));
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(read(&bytes, piece).as_ref(), Ok(&expected), "{piece}");
        }
    }

    #[test]
    fn an_archive_that_is_cut_within_a_section_is_truncated() {
        let bytes = archive(&blocks());
        let ends: Vec<usize> = (0..=3).map(archive_len).collect();
        for len in 0..bytes.len() {
            let is_whole = ends.contains(&len);
            assert_eq!(read(&bytes[..len], 1000).is_ok(), is_whole, "{len}");
        }
    }

    fn archive_len(blocks_in_it: usize) -> usize {
        let none = car::header(&[blocks()[0].cid().clone()]).len();
        let section = |block: &Block| car::section_head(block).len() + block.bytes().len();
        none + blocks()[..blocks_in_it].iter().map(section).sum::<usize>()
    }

    #[test]
    fn a_block_that_does_not_match_its_cid_is_rejected_with_its_offset() {
        let mut bytes = archive(&blocks());
        *bytes.last_mut().unwrap() ^= 1;
        let cid = blocks()[2].cid().clone();
        let at = archive_len(2) as u64;
        let error = BlockError::HashMismatch { cid };
        assert_eq!(read(&bytes, 10), Err(CarError::Block { at, error }));
    }

    #[test]
    fn wrong_lengths_allocate_no_memory() {
        let mut reader = CarReader::default();
        reader.push(&[0xff; 12]);
        assert!(matches!(reader.next(), Err(CarError::Length { at: 0, .. })));
        let mut long = car::header(&[]);
        let at = long.len() as u64;
        varint::encode(SECTION_BYTES_MAX as u64 + 1, &mut long);
        let mut reader = CarReader::default();
        reader.push(&long);
        assert_eq!(reader.next(), Ok(Some(CarItem::Roots(vec![]))));
        let (len, max) = (SECTION_BYTES_MAX as u64 + 1, SECTION_BYTES_MAX);
        assert_eq!(reader.next(), Err(CarError::TooLong { at, len, max }));
        assert!(reader.unread.capacity() < 1000);
    }

    #[test]
    fn an_empty_section_has_no_cid() {
        let bytes = [car::header(&[]), vec![0]].concat();
        assert!(matches!(read(&bytes, 100), Err(CarError::Cid { .. })));
        assert_eq!(read(&[], 1), Err(CarError::Truncated { at: 0 }));
    }
}
