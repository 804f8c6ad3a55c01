//! The fields of the data of a node: numbers, bytes and texts one after another.

use super::{LiveError, MAGIC, NAME_BYTES_MAX};

/// Whether the data of a node begins a page or an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    Beginning = 0,
    Entry = 1,
}

/// Reads the fields of the data of a node.
pub(super) struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    /// Reads the magic bytes and the kind.
    pub(super) fn open(data: &'a [u8], kind: NodeKind) -> Result<Self, LiveError> {
        let unversioned = MAGIC.len() - 1;
        let start = data.get(..MAGIC.len()).ok_or(LiveError::NotLive)?;
        if start[..unversioned] != MAGIC[..unversioned] {
            return Err(LiveError::NotLive);
        }
        if start != MAGIC {
            return Err(LiveError::UnsupportedVersion);
        }
        let mut reader = FieldReader(&data[MAGIC.len()..]);
        match reader.array::<1>()? {
            [number] if number == kind as u8 => Ok(reader),
            _ => Err(LiveError::NotLive),
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], LiveError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(LiveError::Truncated)?;
        self.0 = rest;
        Ok(*array)
    }

    /// Reads the name, which is the last field.
    pub(super) fn name(mut self) -> Result<String, LiveError> {
        let len = usize::from(u16::from_be_bytes(self.array()?));
        if len > NAME_BYTES_MAX {
            return Err(LiveError::NameTooLong { len });
        }
        let bytes = self.0.get(..len).ok_or(LiveError::Truncated)?;
        if self.0.len() > len {
            return Err(LiveError::TrailingBytes);
        }
        Ok(str::from_utf8(bytes).map_err(|_| LiveError::NotUtf8)?.to_owned())
    }
}

/// Starts the data of a node.
pub(super) fn begin(kind: NodeKind) -> Vec<u8> {
    [&MAGIC[..], &[kind as u8]].concat()
}

/// Appends a name, which ends the data of a node.
pub(super) fn write_name(name: &str, data: &mut Vec<u8>) -> Result<(), LiveError> {
    let len = name.len();
    if len > NAME_BYTES_MAX {
        return Err(LiveError::NameTooLong { len });
    }
    data.extend((len as u16).to_be_bytes());
    data.extend(name.as_bytes());
    Ok(())
}
