use serde::Deserialize;
use watchfire_content::dag_pb::{DagPbError, Node};
use watchfire_content::unixfs::{UnixFs, UnixFsError};
use watchfire_content::{
    AssembleError, Block, BlockStore, Cid, Directory, DirectoryError, MemoryStore, ReadError,
    Version, assemble,
};

use crate::{from_hex, vectors};

/// `refused.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefusedVectors {
    dag_pb: Vec<BadBytes>,
    unixfs: Vec<BadBytes>,
    files: Vec<BadFile>,
    directories: Vec<BadDirectory>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BadBytes {
    about: String,
    hex: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BadFile {
    about: String,
    root: String,
    blocks: Vec<String>,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BadDirectory {
    about: String,
    cid: String,
    hex: String,
    reason: String,
}

fn refused() -> RefusedVectors {
    vectors("refused.json")
}

#[test]
fn invalid_nodes_are_rejected_with_the_cause() {
    for vector in refused().dag_pb {
        let error = Node::decode(&from_hex(&vector.hex).into()).expect_err(&vector.about);
        assert_eq!(dag_pb_reason(&error), vector.reason, "{}: {error}", vector.about);
    }
}

#[test]
fn invalid_unixfs_is_rejected_with_the_cause() {
    for vector in refused().unixfs {
        let error = UnixFs::decode(&from_hex(&vector.hex).into()).expect_err(&vector.about);
        assert_eq!(unixfs_reason(&error), vector.reason, "{}: {error}", vector.about);
    }
}

#[test]
fn invalid_files_are_rejected_with_the_cause() {
    for vector in refused().files {
        let mut store = MemoryStore::new(1 << 20);
        for block in &vector.blocks {
            // The store finds blocks by their hash, so the codec does not matter here.
            let block = Block::dag_pb(Version::V1, from_hex(block).into()).unwrap();
            store.put(block).unwrap();
        }
        let root: Cid = vector.root.parse().unwrap();
        let error = assemble(&store, &root, u64::MAX).expect_err(&vector.about);
        assert_eq!(file_reason(&error), vector.reason, "{}: {error}", vector.about);
    }
}

#[test]
fn invalid_directories_are_rejected_with_the_cause() {
    for vector in refused().directories {
        let cid = vector.cid.parse().unwrap();
        let block = Block::verify(cid, from_hex(&vector.hex).into()).expect(&vector.about);
        let error = Directory::decode(&block).expect_err(&vector.about);
        assert_eq!(directory_reason(&error), vector.reason, "{}: {error}", vector.about);
    }
}

fn dag_pb_reason(error: &DagPbError) -> &'static str {
    match error {
        DagPbError::Protobuf(_) => "protobuf",
        DagPbError::NodeField { .. } => "node-field",
        DagPbError::LinkField { .. } => "link-field",
        DagPbError::NodeOrder => "node-order",
        DagPbError::LinkOrder { .. } => "link-order",
        DagPbError::LinkWithoutCid => "link-without-cid",
        DagPbError::LinkCid(_) => "link-cid",
        DagPbError::LinkName => "link-name",
        DagPbError::TooManyLinks { .. } => "too-many-links",
    }
}

fn unixfs_reason(error: &UnixFsError) -> &'static str {
    match error {
        UnixFsError::Protobuf(_) => "protobuf",
        UnixFsError::NoKind => "no-kind",
        UnixFsError::UnknownKind { .. } => "unknown-kind",
        UnixFsError::Field { .. } => "field",
        UnixFsError::Order { .. } => "order",
        UnixFsError::TooManyBlockSizes { .. } => "too-many-block-sizes",
        UnixFsError::Mode { .. } => "mode",
        UnixFsError::NoSeconds => "no-seconds",
        UnixFsError::Nanos { .. } => "nanos",
    }
}

fn file_reason(error: &AssembleError) -> &'static str {
    match error {
        AssembleError::Missing { .. } => "missing",
        AssembleError::Read(error) => match error {
            ReadError::Codec { .. } => "codec",
            ReadError::DagPb(_) => "dag-pb",
            ReadError::UnixFs(_) => "unixfs",
            ReadError::Kind { .. } => "kind",
            ReadError::TooLarge { .. } => "too-large",
            ReadError::Size { .. } => "size",
            ReadError::SizeOverflow => "size-overflow",
            ReadError::BlockSizes { .. } => "block-sizes",
            ReadError::EmptyPart => "empty-part",
            ReadError::NamedPart => "named-part",
            ReadError::TooDeep { .. } => "too-deep",
        },
    }
}

fn directory_reason(error: &DirectoryError) -> &'static str {
    match error {
        DirectoryError::Codec { .. } => "codec",
        DirectoryError::DagPb(_) => "dag-pb",
        DirectoryError::UnixFs(_) => "unixfs",
        DirectoryError::Kind { .. } => "kind",
        DirectoryError::Sharded => "sharded",
        DirectoryError::Name { .. } => "name",
        DirectoryError::DuplicateName { .. } => "duplicate-name",
        DirectoryError::Shard(_) => "shard",
        DirectoryError::TooManyEntries { .. } => "too-many-entries",
    }
}
