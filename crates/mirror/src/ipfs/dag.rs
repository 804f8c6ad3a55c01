//! The DAGs of blobs: those that `ipfs add --cid-version 1 --raw-leaves --chunker size-1048576` makes.

use std::convert::Infallible;

use bytes::Bytes;
use serde::Deserialize;
use watchfire_content::{Block, FileBuilder, Profile, Root};

use crate::oci::Digest;
use crate::store::{BLOCK_BYTES, Blob, cid_of};

const PROFILE: Profile = Profile::V1_1_MIB;

/// Keeps the blocks that a builder emits.
fn keep_in(nodes: &mut Vec<Block>) -> impl FnMut(Block) -> Result<(), Infallible> {
    |block| {
        nodes.push(block);
        Ok(())
    }
}

/// The root of a complete blob, and the nodes of its DAG. Its leaves are the blocks of the blob, so no byte is read.
pub(super) fn of_blob(blob: &Blob) -> Option<(Root, Vec<Block>)> {
    let mut nodes = Vec::new();
    let mut keep = keep_in(&mut nodes);
    let mut builder = FileBuilder::new(PROFILE).expect("a known profile is valid");
    for block in 0..blob.blocks() {
        let (cid, (_, len)) = (cid_of(blob.block_hash(block)?), blob.block_range(block));
        let Ok(()) = builder.add_leaf(cid, len as u64, &mut keep);
    }
    let Ok(root) = builder.finish(&mut keep);
    drop(keep);
    Some((root, nodes))
}

/// A file of one block. `None`: it has more.
pub(super) fn of_bytes(bytes: &Bytes) -> Option<(Root, Vec<Block>)> {
    let len = bytes.len() as u64;
    let block = Block::raw(bytes.clone()).ok().filter(|_| bytes.len() <= BLOCK_BYTES)?;
    Some((Root { cid: block.cid().clone(), dag_bytes: len, file_bytes: len }, vec![block]))
}

#[derive(Deserialize)]
struct ManifestJson {
    config: Option<Named>,
    layers: Option<Vec<Named>>,
}

#[derive(Deserialize)]
struct Named {
    digest: String,
}

/// The configuration and the layers of an image. `None`: it is not the manifest of an image.
pub(super) fn blobs_of(manifest: &[u8]) -> Option<Vec<Digest>> {
    let json: ManifestJson = serde_json::from_slice(manifest).ok()?;
    let named = [json.config?].into_iter().chain(json.layers.into_iter().flatten());
    named.map(|named| named.digest.parse().ok()).collect()
}
