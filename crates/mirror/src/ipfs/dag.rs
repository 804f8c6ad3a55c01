//! The DAGs of blobs and images: those that `ipfs add --cid-version 1 --raw-leaves --chunker size-1048576` makes.

use std::collections::BTreeMap;
use std::convert::Infallible;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use watchfire_content::{Block, DirectoryBuilder, FileBuilder, Profile, Root};

use crate::oci::{Digest, Manifest};
use crate::store::{BLOCK_BYTES, Blob, cid_of};

const PROFILE: Profile = Profile::V1_1_MIB;
pub(super) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";

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

/// The folder of an image in the OCI image layout. `files` are its manifest and its blobs.
pub(super) fn of_image(
    manifest: &Manifest,
    files: &BTreeMap<Digest, Root>,
) -> Option<(Root, Vec<Block>)> {
    let descriptor = json!({
        "mediaType": manifest.media_type,
        "digest": manifest.digest.to_string(),
        "size": manifest.bytes.len(),
    });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [descriptor] });
    let file = |json: Value| of_bytes(&json.to_string().into());
    let (index, mut nodes) = file(index)?;
    let (version, of_version) = file(json!({ "imageLayoutVersion": "1.0.0" }))?;
    nodes.extend(of_version);
    let mut folder = |entries: Vec<(String, Root)>| {
        let mut builder = DirectoryBuilder::new(PROFILE);
        for (name, root) in entries {
            builder.insert(&name, &root).expect("the names differ and are valid");
        }
        let Ok(root) = builder.finish(&mut keep_in(&mut nodes));
        root
    };
    let mut of_algorithms: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for (digest, root) in files {
        let files = of_algorithms.entry(digest.algorithm().name()).or_default();
        files.push((digest.hex(), root.clone()));
    }
    let of_algorithms = of_algorithms.into_iter();
    let blobs = of_algorithms.map(|(name, files)| (name.to_owned(), folder(files))).collect();
    let entries = [("blobs", folder(blobs)), ("index.json", index), ("oci-layout", version)];
    let root = folder(entries.map(|(name, root)| (name.to_owned(), root)).into());
    Some((root, nodes))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ManifestJson {
    pub(super) media_type: Option<String>,
    pub(super) config: Option<Named>,
    layers: Option<Vec<Named>>,
    pub(super) manifests: Option<Vec<Named>>,
}

#[derive(Deserialize)]
pub(super) struct Named {
    pub(super) digest: String,
}

/// The configuration and the layers of an image. `None`: it is not the manifest of an image.
pub(super) fn blobs_of(manifest: &[u8]) -> Option<Vec<Digest>> {
    let json: ManifestJson = serde_json::from_slice(manifest).ok()?;
    let named = [json.config?].into_iter().chain(json.layers.into_iter().flatten());
    named.map(|named| named.digest.parse().ok()).collect()
}
