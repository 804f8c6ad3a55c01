use crate::Version;

/// The largest chunk: the largest block without the overhead of a node.
pub const CHUNK_BYTES_MAX: usize = crate::BLOCK_BYTES_MAX - 256;

/// How files and directories are split into blocks. The same content under the same profile has the
/// same CID everywhere.
///
/// ```
/// use watchfire_content::{FileBuilder, Profile};
///
/// let own = Profile { chunk_bytes: 512 * 1024, ..Profile::UNIXFS_V1_2025 };
/// assert!(FileBuilder::new(own).is_ok());
/// assert!(FileBuilder::new(Profile { chunk_bytes: 0, ..own }).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The version of the CIDs of nodes. Raw leaves are version 1 in any case.
    pub cid_version: Version,
    /// Whether leaves are raw bytes or nodes that contain the bytes.
    pub raw_leaves: bool,
    /// Bytes of each leaf but the last. At least 1, at most [`CHUNK_BYTES_MAX`].
    pub chunk_bytes: usize,
    /// Largest number of links of a node of a file. At least 2, at most [`FILE_LINKS_MAX`].
    pub links_max: usize,
    /// How the size of a directory is estimated for [`HAMT_THRESHOLD_BYTES`].
    pub hamt_size_estimation: HamtSizeEstimation,
}

/// The largest `links_max` of a profile: the number of links that fit into a block with their sizes.
pub const FILE_LINKS_MAX: usize = 8192;

/// The estimated size above which a directory is sharded into several nodes (a HAMT). Other
/// importers use the same threshold, so the CIDs are the same.
pub const HAMT_THRESHOLD_BYTES: usize = 256 * 1024;

/// How the size of a directory is estimated to decide whether it is sharded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HamtSizeEstimation {
    BlockBytes,
    /// Only the bytes of the names and the CIDs of the links.
    LinksBytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    #[error("invalid chunk size of {chunk_bytes} bytes: use 1 to {max}")]
    ChunkBytes { chunk_bytes: usize, max: usize },
    #[error("invalid number of {links_max} links: use 2 to {max}")]
    LinksMax { links_max: usize, max: usize },
}

impl Profile {
    /// The profile `unixfs-v1-2025`: version 1, raw leaves of 1 MiB, 1024 links. The default.
    pub const UNIXFS_V1_2025: Profile = Profile {
        cid_version: Version::V1,
        raw_leaves: true,
        chunk_bytes: 1024 * 1024,
        links_max: 1024,
        hamt_size_estimation: HamtSizeEstimation::BlockBytes,
    };

    /// The default of kubo: version 0, leaves of 256 KiB in nodes, 174 links.
    pub const KUBO_DEFAULT: Profile = Profile {
        cid_version: Version::V0,
        raw_leaves: false,
        chunk_bytes: 256 * 1024,
        links_max: 174,
        hamt_size_estimation: HamtSizeEstimation::LinksBytes,
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
