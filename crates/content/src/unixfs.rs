//! UnixFS: the data of a dag-pb node of a file, a directory or a symbolic link.
//!
//! Fields must be known, in ascending order and not repeated, except for block sizes. All importers
//! write them so. Decoded data therefore encodes to the same bytes.

use bytes::Bytes;

use crate::protobuf::{self, Fields, ProtobufError, Value};

/// The largest number of block sizes: one for each link of a node.
pub const BLOCK_SIZES_MAX: usize = crate::dag_pb::LINKS_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes of a file, as some importers mark leaves.
    Raw,
    /// A directory whose entries are the node's links.
    Directory,
    File,
    /// A file with a media type. It is decoded but never created.
    Metadata,
    /// A symbolic link; the data is its target.
    Symlink,
    HamtShard,
}

impl Kind {
    const ALL: [Kind; 6] =
        [Kind::Raw, Kind::Directory, Kind::File, Kind::Metadata, Kind::Symlink, Kind::HamtShard];
}

/// The modification time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModifiedAt {
    /// Seconds since 1970, UTC; negative before.
    pub seconds: i64,
    /// Nanoseconds after them. `None` when the field is absent.
    pub nanos: Option<u32>,
}

/// The data of a node of a file system.
///
/// ```
/// use watchfire_content::unixfs::{Kind, UnixFs};
///
/// let empty_directory = UnixFs::new(Kind::Directory);
/// assert_eq!(empty_directory.encode(), [0x08, 0x01]);
/// assert_eq!(UnixFs::decode(&vec![0x08, 0x01].into()), Ok(empty_directory));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixFs {
    pub kind: Kind,
    /// The bytes of a file in this node, which precede the bytes of its links; the target of a symbolic
    /// link; the bitmap of a shard.
    pub data: Option<Bytes>,
    /// The length of the file, or of the part of it in this node and its links.
    pub filesize: Option<u64>,
    /// The length of the file's part below each link.
    pub block_sizes: Vec<u64>,
    pub hash_type: Option<u64>,
    /// The number of slots of a shard.
    pub fanout: Option<u64>,
    /// POSIX permissions.
    pub mode: Option<u32>,
    pub modified_at: Option<ModifiedAt>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnixFsError {
    #[error(transparent)]
    Protobuf(#[from] ProtobufError),
    #[error("the type is missing")]
    NoKind,
    #[error("unknown type {value}")]
    UnknownKind { value: u64 },
    #[error("unknown field {field} of wire type {wire_type}")]
    Field { field: u64, wire_type: u8 },
    #[error("field {field} is repeated or out of order")]
    Order { field: u64 },
    #[error("more than {max} block sizes, which is the limit")]
    TooManyBlockSizes { max: usize },
    #[error("mode {value:#o} is too large")]
    Mode { value: u64 },
    #[error("the modification time has no seconds")]
    NoSeconds,
    #[error("{value} nanoseconds are more than a second")]
    Nanos { value: u32 },
}

impl UnixFs {
    /// Creates data of `kind` without other fields.
    pub const fn new(kind: Kind) -> Self {
        UnixFs {
            kind,
            data: None,
            filesize: None,
            block_sizes: Vec::new(),
            hash_type: None,
            fanout: None,
            mode: None,
            modified_at: None,
        }
    }

    /// Decodes all of `bytes`. The data shares them.
    pub fn decode(bytes: &Bytes) -> Result<Self, UnixFsError> {
        let mut kind = None;
        let mut unixfs = UnixFs::new(Kind::Raw);
        let mut last_field = 0;
        for field in Fields::new(bytes) {
            let (field, value) = field?;
            let is_next = field > last_field || (field == 4 && last_field == 4);
            match (field, value) {
                (1..=8, _) if !is_next => return Err(UnixFsError::Order { field }),
                (1, Value::Varint(value)) => kind = Some(kind_from(value)?),
                (2, Value::Bytes(data)) => unixfs.data = Some(bytes.slice_ref(data)),
                (3, Value::Varint(bytes)) => unixfs.filesize = Some(bytes),
                (4, Value::Varint(bytes)) => {
                    if unixfs.block_sizes.len() == BLOCK_SIZES_MAX {
                        return Err(UnixFsError::TooManyBlockSizes { max: BLOCK_SIZES_MAX });
                    }
                    unixfs.block_sizes.push(bytes);
                }
                (5, Value::Varint(code)) => unixfs.hash_type = Some(code),
                (6, Value::Varint(width)) => unixfs.fanout = Some(width),
                (7, Value::Varint(value)) => {
                    let mode = u32::try_from(value).map_err(|_| UnixFsError::Mode { value })?;
                    unixfs.mode = Some(mode);
                }
                (8, Value::Bytes(time)) => unixfs.modified_at = Some(ModifiedAt::decode(time)?),
                (field, value) => {
                    return Err(UnixFsError::Field { field, wire_type: value.wire_type() });
                }
            }
            last_field = field;
        }
        unixfs.kind = kind.ok_or(UnixFsError::NoKind)?;
        Ok(unixfs)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let number = |field, value: Option<u64>, bytes: &mut Vec<u8>| {
            if let Some(value) = value {
                protobuf::encode_field(field, Value::Varint(value), bytes);
            }
        };
        number(1, Some(self.kind as u64), &mut bytes);
        if let Some(data) = &self.data {
            protobuf::encode_field(2, Value::Bytes(data), &mut bytes);
        }
        number(3, self.filesize, &mut bytes);
        for &block_bytes in &self.block_sizes {
            number(4, Some(block_bytes), &mut bytes);
        }
        number(5, self.hash_type, &mut bytes);
        number(6, self.fanout, &mut bytes);
        number(7, self.mode.map(u64::from), &mut bytes);
        if let Some(modified_at) = self.modified_at {
            protobuf::encode_field(8, Value::Bytes(&modified_at.encode()), &mut bytes);
        }
        bytes
    }
}

fn kind_from(value: u64) -> Result<Kind, UnixFsError> {
    let kind = usize::try_from(value).ok().and_then(|at| Kind::ALL.get(at));
    kind.copied().ok_or(UnixFsError::UnknownKind { value })
}

impl ModifiedAt {
    fn decode(bytes: &[u8]) -> Result<Self, UnixFsError> {
        let (mut seconds, mut nanos, mut last_field) = (None, None, 0);
        for field in Fields::new(bytes) {
            let (field, value) = field?;
            match (field, value) {
                (1..=2, _) if field <= last_field => return Err(UnixFsError::Order { field }),
                // Negative numbers are written as their two's complement.
                (1, Value::Varint(value)) => seconds = Some(value as i64),
                (2, Value::Fixed32(value)) if value < 1_000_000_000 => nanos = Some(value),
                (2, Value::Fixed32(value)) => return Err(UnixFsError::Nanos { value }),
                (field, value) => {
                    return Err(UnixFsError::Field { field, wire_type: value.wire_type() });
                }
            }
            last_field = field;
        }
        Ok(ModifiedAt { seconds: seconds.ok_or(UnixFsError::NoSeconds)?, nanos })
    }

    fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        protobuf::encode_field(1, Value::Varint(self.seconds as u64), &mut bytes);
        if let Some(nanos) = self.nanos {
            protobuf::encode_field(2, Value::Fixed32(nanos), &mut bytes);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Result<UnixFs, UnixFsError> {
        UnixFs::decode(&Bytes::copy_from_slice(bytes))
    }

    #[test]
    fn every_kind_is_decoded_again() {
        for (value, kind) in Kind::ALL.into_iter().enumerate() {
            let bytes = UnixFs::new(kind).encode();
            assert_eq!(bytes, [0x08, value as u8]);
            assert_eq!(decoded(&bytes).unwrap().kind, kind);
        }
    }

    #[test]
    fn every_field_is_decoded_again() {
        let unixfs = UnixFs {
            kind: Kind::File,
            data: Some("data".into()),
            filesize: Some(1 << 40),
            block_sizes: vec![0, 1, 300],
            hash_type: Some(0x22),
            fanout: Some(256),
            mode: Some(0o755),
            modified_at: Some(ModifiedAt { seconds: -1, nanos: Some(999_999_999) }),
        };
        assert_eq!(decoded(&unixfs.encode()), Ok(unixfs));
    }

    #[test]
    fn an_empty_file_declares_its_length() {
        let empty = UnixFs { filesize: Some(0), ..UnixFs::new(Kind::File) };
        assert_eq!(empty.encode(), [0x08, 2, 0x18, 0]);
    }

    #[test]
    fn non_canonical_encodings_are_rejected() {
        assert_eq!(decoded(&[0x18, 0, 0x08, 2]), Err(UnixFsError::Order { field: 1 }));
        assert_eq!(decoded(&[0x08, 2, 0x18, 0, 0x18, 0]), Err(UnixFsError::Order { field: 3 }));
        let packed = [0x08, 2, 0x22, 2, 1, 1];
        assert_eq!(decoded(&packed), Err(UnixFsError::Field { field: 4, wire_type: 2 }));
        assert_eq!(
            decoded(&[0x08, 2, 0x48, 0]),
            Err(UnixFsError::Field { field: 9, wire_type: 0 })
        );
    }

    #[test]
    fn invalid_values_are_rejected() {
        assert_eq!(decoded(&[]), Err(UnixFsError::NoKind));
        assert_eq!(decoded(&[0x18, 0]), Err(UnixFsError::NoKind));
        assert_eq!(decoded(&[0x08, 6]), Err(UnixFsError::UnknownKind { value: 6 }));
        let mode = decoded(&[0x08, 2, 0x38, 0x80, 0x80, 0x80, 0x80, 0x10]);
        assert_eq!(mode, Err(UnixFsError::Mode { value: 1 << 32 }));
        assert_eq!(decoded(&[0x08, 2, 0x42, 0]), Err(UnixFsError::NoSeconds));
        let second = [&[0x08, 2, 0x42, 7, 0x08, 0, 0x15][..], &1_000_000_000_u32.to_le_bytes()];
        assert_eq!(decoded(&second.concat()), Err(UnixFsError::Nanos { value: 1_000_000_000 }));
    }

    #[test]
    fn too_many_block_sizes_are_rejected() {
        let bytes = [&[0x08, 2][..], &[0x20, 1].repeat(BLOCK_SIZES_MAX + 1)].concat();
        assert_eq!(decoded(&bytes), Err(UnixFsError::TooManyBlockSizes { max: BLOCK_SIZES_MAX }));
    }
}
