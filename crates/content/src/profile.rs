use crate::Version;

/// Most bytes of a chunk: the largest block less what a node adds around a leaf's data.
pub const CHUNK_BYTES_MAX: usize = crate::BLOCK_BYTES_MAX - 256;

/// How files and directories become blocks. The same content under the same profile has the same
/// CID everywhere.
///
/// ```
/// use content::{FileBuilder, Profile};
///
/// let own = Profile { chunk_bytes: 512 * 1024, ..Profile::UNIXFS_V1_2025 };
/// assert!(FileBuilder::new(own).is_ok());
/// assert!(FileBuilder::new(Profile { chunk_bytes: 0, ..own }).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The version of the CIDs of nodes. Raw leaves are version 1 in any case.
    pub cid_version: Version,
    /// Whether a leaf is the bytes themselves, or a node around them.
    pub raw_leaves: bool,
    /// Bytes of each leaf but the last. At least 1, at most [`CHUNK_BYTES_MAX`].
    pub chunk_bytes: usize,
    /// Most links of a file's node. At least 2, at most [`FILE_LINKS_MAX`].
    pub links_max: usize,
    /// How a directory is weighed against [`DIRECTORY_BYTES_MAX`].
    pub directory_weight: DirectoryWeight,
}

/// Most links that a profile may ask of a file's node: as many as fit into a block beside the
/// sizes of what is behind them.
pub const FILE_LINKS_MAX: usize = 8192;

/// Weight from which on other importers spread a directory over many nodes, so that one node of
/// more than this would have another CID there.
pub const DIRECTORY_BYTES_MAX: usize = 256 * 1024;

/// What is weighed to find out whether a directory still fits into one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryWeight {
    /// The bytes of the whole node.
    Block,
    /// Only the bytes of the entries' names and CIDs.
    NamesAndCids,
}

/// Why nothing can be built under a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Leaves would be empty, or larger than blocks may be.
    #[error("chunks of {chunk_bytes} bytes are not between 1 and {max}")]
    ChunkBytes {
        /// What was asked for.
        chunk_bytes: usize,
        /// Most bytes of a chunk.
        max: usize,
    },
    /// Nodes would not get fewer from level to level, or be larger than blocks may be.
    #[error("nodes of {links_max} links are not between 2 and {max}")]
    LinksMax {
        /// What was asked for.
        links_max: usize,
        /// Most links of a file's node.
        max: usize,
    },
}

impl Profile {
    /// The profile `unixfs-v1-2025`: version 1, raw leaves of 1 MiB, 1024 links. Ours.
    pub const UNIXFS_V1_2025: Profile = Profile {
        cid_version: Version::V1,
        raw_leaves: true,
        chunk_bytes: 1024 * 1024,
        links_max: 1024,
        directory_weight: DirectoryWeight::Block,
    };

    /// What kubo does unasked: version 0, leaves of 256 KiB in nodes, 174 links.
    pub const KUBO_DEFAULT: Profile = Profile {
        cid_version: Version::V0,
        raw_leaves: false,
        chunk_bytes: 256 * 1024,
        links_max: 174,
        directory_weight: DirectoryWeight::NamesAndCids,
    };

    /// Version 1, raw leaves of 256 KiB, 174 links.
    pub const V1_256_KIB: Profile =
        Profile { cid_version: Version::V1, raw_leaves: true, ..Self::KUBO_DEFAULT };

    /// Version 1, raw leaves of 1 MiB, 174 links.
    pub const V1_1_MIB: Profile = Profile { chunk_bytes: 1024 * 1024, ..Self::V1_256_KIB };

    pub(crate) fn check(&self) -> Result<(), ProfileError> {
        let (chunk_bytes, links_max) = (self.chunk_bytes, self.links_max);
        if !(1..=CHUNK_BYTES_MAX).contains(&chunk_bytes) {
            return Err(ProfileError::ChunkBytes { chunk_bytes, max: CHUNK_BYTES_MAX });
        }
        if !(2..=FILE_LINKS_MAX).contains(&links_max) {
            return Err(ProfileError::LinksMax { links_max, max: FILE_LINKS_MAX });
        }
        Ok(())
    }
}

impl Default for Profile {
    fn default() -> Self {
        Profile::UNIXFS_V1_2025
    }
}
