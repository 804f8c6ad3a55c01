use tempfile::TempDir;

use super::*;
use crate::oci::Manifest;

struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Scratch(tempfile::tempdir().unwrap())
    }

    fn folder(&self) -> Folder {
        Folder::open(self.0.path()).unwrap()
    }
}

/// Bytes of a blob with three blocks, the last of which is short.
fn content(seed: u8) -> Vec<u8> {
    (0..2 * BLOCK_BYTES + 1000).map(|at| (at as u64 * 7 + u64::from(seed)) as u8).collect()
}

fn block_of(bytes: &[u8], block: usize) -> &[u8] {
    bytes.chunks(BLOCK_BYTES).nth(block).unwrap()
}

/// Opens a blob whose bytes must have its digest.
fn open_partial(blobs: &Blobs, digest: &Digest, size: u64) -> Result<Arc<Blob>, StoreError> {
    blobs.open_partial(digest, Check::Whole(digest.clone()), size)
}

fn write_all(folder: &Folder, blob: &Blob, bytes: &[u8], order: &[usize]) -> BlobState {
    let mut state = blob.state();
    for block in order {
        state = {
            let block_bytes = bytes::Bytes::copy_from_slice(block_of(bytes, *block));
            blob.write_block(folder, *block, &Block::raw(block_bytes).unwrap()).unwrap()
        };
    }
    state
}

#[test]
fn the_order_of_a_blob_that_is_gone_is_removed() {
    let scratch = Scratch::new();
    let folder = scratch.folder();
    let [complete, partial, gone] = [b"1", b"2", b"3"].map(|name| Digest::sha256(name));
    for digest in [&complete, &partial, &gone] {
        write_whole(&Folder::start_order(&folder.blob(digest)), &[b"1234"]).unwrap();
    }
    write_whole(&folder.blob(&complete), &[b"1"]).unwrap();
    write_whole(&folder.partial(&partial), &[b"2"]).unwrap();
    Blobs::open(folder.clone(), 1 << 30).unwrap();
    let has_order = |digest| Folder::start_order(&folder.blob(digest)).exists();
    assert!(has_order(&complete) && has_order(&partial) && !has_order(&gone));
}

#[test]
fn a_file_without_a_digest_is_complete_with_its_last_block() {
    let scratch = Scratch::new();
    let folder = scratch.folder();
    let (bytes, name) = (content(3), Digest::sha256(b"name"));
    let size = bytes.len() as u64;
    let open = |blobs: &Blobs, check| blobs.open_partial(&name, check, size).unwrap();
    {
        let blobs = Blobs::open(folder.clone(), 1 << 30).unwrap();
        let blob = open(&blobs, Check::Blocks);
        assert_eq!(write_all(&folder, &blob, &bytes, &[2, 0]), BlobState::Partial);
    }
    let blobs = Blobs::open(folder.clone(), 1 << 30).unwrap();
    let blob = open(&blobs, Check::Blocks);
    assert_eq!(blob.blocks_present(), 2);
    assert_eq!(write_all(&folder, &blob, &bytes, &[1]), BlobState::Complete);
    drop(blob);
    assert!(blobs.complete(&name).unwrap().is_some());
    // The digest of the content may be known, and differs from the name.
    for (whole, state) in [(&bytes[..], BlobState::Complete), (b"other", BlobState::Wrong)] {
        blobs.remove(&name).unwrap();
        let blob = open(&blobs, Check::Whole(Digest::sha256(whole)));
        assert_eq!(write_all(&folder, &blob, &bytes, &[1, 2, 0]), state);
    }
}

#[test]
fn blocks_in_any_order_make_a_blob() {
    let scratch = Scratch::new();
    let folder = scratch.folder();
    let blobs = Blobs::open(folder.clone(), 1 << 30).unwrap();
    for (seed, order) in [(1, [0, 1, 2]), (2, [2, 1, 0]), (3, [1, 2, 0])] {
        let bytes = content(seed);
        let digest = Digest::sha256(&bytes);
        assert!(blobs.complete(&digest).unwrap().is_none());
        let blob = open_partial(&blobs, &digest, bytes.len() as u64).unwrap();
        assert_eq!(write_all(&folder, &blob, &bytes, &order[..2]), BlobState::Partial);
        assert_eq!(write_all(&folder, &blob, &bytes, &order[2..]), BlobState::Complete);
        let blob = blobs.complete(&digest).unwrap().unwrap();
        let read: Vec<u8> = (0..3).flat_map(|one| blob.read_block(one).unwrap().unwrap()).collect();
        assert!(read == bytes);
    }
    assert_eq!(blobs.status().blobs, 3);
}

#[test]
fn a_blob_with_wrong_bytes_is_removed() {
    let scratch = Scratch::new();
    let folder = scratch.folder();
    let blobs = Blobs::open(folder.clone(), 1 << 30).unwrap();
    let (bytes, digest) = (content(1), Digest::sha256(b"other"));
    let blob = open_partial(&blobs, &digest, bytes.len() as u64).unwrap();
    assert_eq!(write_all(&folder, &blob, &bytes, &[0, 1, 2]), BlobState::Wrong);
    blobs.remove(&digest).unwrap();
    assert!(blobs.complete(&digest).unwrap().is_none());
    assert!(!folder.partial(&digest).exists() && !folder.blob(&digest).exists());
}

#[test]
fn another_process_goes_on_with_a_partial_blob_and_drops_its_damaged_blocks() {
    let scratch = Scratch::new();
    let bytes = content(1);
    let digest = Digest::sha256(&bytes);
    {
        let folder = scratch.folder();
        let blobs = Blobs::open(folder.clone(), 1 << 30).unwrap();
        let blob = open_partial(&blobs, &digest, bytes.len() as u64).unwrap();
        write_all(&folder, &blob, &bytes, &[0, 2]);
        let file = File::options().write(true).open(folder.partial(&digest)).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"damage", 5).unwrap();
    }
    let folder = scratch.folder();
    let blobs = Blobs::open(folder.clone(), 1 << 30).unwrap();
    let blob = open_partial(&blobs, &digest, bytes.len() as u64).unwrap();
    let present: Vec<_> = (0..3).map(|block| blob.has_block(block)).collect();
    assert_eq!(present, [false, false, true]);
    assert_eq!(write_all(&folder, &blob, &bytes, &[1, 0]), BlobState::Complete);
}

#[test]
fn a_damaged_block_is_an_error_and_a_lost_list_is_made_again() {
    let scratch = Scratch::new();
    let bytes = content(1);
    let digest = Digest::sha256(&bytes);
    let folder = scratch.folder();
    {
        let blobs = Blobs::open(folder.clone(), 1 << 30).unwrap();
        let blob = open_partial(&blobs, &digest, bytes.len() as u64).unwrap();
        write_all(&folder, &blob, &bytes, &[0, 1, 2]);
    }
    std::fs::remove_file(Folder::block_list(&folder.blob(&digest))).unwrap();
    {
        let blobs = Blobs::open(folder.clone(), 1 << 30).unwrap();
        let blob = blobs.complete(&digest).unwrap().unwrap();
        assert!(blob.read_block(2).unwrap().unwrap() == block_of(&bytes, 2));
    }
    let file = File::options().write(true).open(folder.blob(&digest)).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"damage", BLOCK_BYTES as u64).unwrap();
    let blobs = Blobs::open(folder.clone(), 1 << 30).unwrap();
    let blob = blobs.complete(&digest).unwrap().unwrap();
    assert!(blob.read_block(0).is_ok());
    assert!(matches!(blob.read_block(1), Err(StoreError::Damaged { .. })));
}

#[test]
fn a_full_store_removes_what_was_not_used_and_keeps_what_is_open() {
    let scratch = Scratch::new();
    let folder = scratch.folder();
    let bytes: Vec<Vec<u8>> = (0..4).map(content).collect();
    let digests: Vec<Digest> = bytes.iter().map(|bytes| Digest::sha256(bytes)).collect();
    let size = bytes[0].len() as u64;
    let blobs = Blobs::open(folder.clone(), 3 * disk_bytes_of_blob(size)).unwrap();
    let store = |one: usize| {
        let blob = open_partial(&blobs, &digests[one], size).unwrap();
        write_all(&folder, &blob, &bytes[one], &[0, 1, 2]);
        blob
    };
    let open = store(0);
    drop((store(1), store(2)));
    drop(blobs.complete(&digests[1]).unwrap());
    drop(store(3));
    let kept: Vec<_> =
        digests.iter().map(|digest| blobs.complete(digest).unwrap().is_some()).collect();
    assert_eq!(kept, [true, true, false, true]);
    assert_eq!(blobs.status().evicted, 1);
    drop(open);
    let bytes_max = blobs.bytes_max();
    let error = open_partial(&blobs, &Digest::sha256(b"x"), bytes_max).unwrap_err();
    assert!(matches!(error, StoreError::LargerThanStore { .. }), "{error}");
    let all: Vec<_> = [0, 1, 3].map(|one| blobs.complete(&digests[one]).unwrap()).into();
    let error = open_partial(&blobs, &Digest::sha256(b"x"), size).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    drop(all);
}

#[test]
fn blocks_are_found_by_their_hash_unless_it_is_the_digest_of_a_blob() {
    let scratch = Scratch::new();
    let folder = scratch.folder();
    let blobs = Blobs::open(folder.clone(), 1 << 30).unwrap();
    let (large, small) = (content(1), b"small".to_vec());
    for (bytes, order) in [(&large, &[0, 1, 2][..]), (&small, &[0])] {
        let blob = open_partial(&blobs, &Digest::sha256(bytes), bytes.len() as u64).unwrap();
        assert_eq!(write_all(&folder, &blob, bytes, order), BlobState::Complete);
    }
    let hash = |bytes: &[u8]| {
        let block = Block::raw(bytes::Bytes::copy_from_slice(bytes)).unwrap();
        hash_of(block.cid()).unwrap()
    };
    let first = hash(block_of(&large, 0));
    assert_eq!(blobs.block_len(&first), Some(BLOCK_BYTES as u64));
    assert!(blobs.block(&first).unwrap().unwrap().bytes() == block_of(&large, 0));
    assert_eq!(blobs.block_len(&hash(&small)), None);
    assert!(blobs.block(&hash(&small)).unwrap().is_none());
    blobs.remove(&Digest::sha256(&large)).unwrap();
    assert!(blobs.block(&first).unwrap().is_none());
    assert_eq!(blobs.block_len(&first), None);
}

#[test]
fn blobs_of_containerd_are_read_in_place_and_not_kept_twice() {
    let scratch = Scratch::new();
    let theirs = scratch.0.path().join("theirs");
    let folder = scratch.folder().with_containerd(Some(theirs.clone()));
    let blobs = Blobs::open(folder.clone(), 1 << 30).unwrap();
    let (bytes, other) = (content(1), content(2));
    let digest = Digest::sha256(&bytes);
    write_all(
        &folder,
        &open_partial(&blobs, &digest, bytes.len() as u64).unwrap(),
        &bytes,
        &[0, 1, 2],
    );
    assert_eq!(blobs.status().blobs, 1);

    let place = |digest: &Digest| theirs.join("sha256").join(digest.hex());
    std::fs::create_dir_all(theirs.join("sha256")).unwrap();
    std::fs::write(place(&digest), &bytes).unwrap();
    // Not what its name says: it is never read.
    std::fs::write(place(&Digest::sha256(&other)), &bytes).unwrap();
    blobs.remove_copies_of_containerd().unwrap();
    assert_eq!((blobs.status().blobs, folder.blob(&digest).exists()), (0, false));
    let blob = blobs.complete(&digest).unwrap().unwrap();
    assert!(blob.read_block(1).unwrap().unwrap() == block_of(&bytes, 1));
    assert_eq!(blobs.status().bytes, 0);
    for _ in 0..2 {
        assert!(blobs.complete(&Digest::sha256(&other)).unwrap().is_none());
    }
    std::fs::remove_file(place(&Digest::sha256(&other))).unwrap();
    blobs.remove_copies_of_containerd().unwrap();
    assert!(folder.containerd_list(&digest).exists());
    blobs.remove(&digest).unwrap();
    assert!(place(&digest).exists());
}

#[test]
fn a_store_has_one_process() {
    let scratch = Scratch::new();
    let first = scratch.folder();
    assert!(matches!(Folder::open(scratch.0.path()), Err(StoreError::InUse { .. })));
    drop(first);
    scratch.folder();
}

#[test]
fn an_empty_blob_is_complete_at_once() {
    let scratch = Scratch::new();
    let blobs = Blobs::open(scratch.folder(), 1 << 30).unwrap();
    let blob = open_partial(&blobs, &Digest::sha256(b""), 0).unwrap();
    assert_eq!((blob.state(), blob.blocks()), (BlobState::Complete, 0));
    let wrong = open_partial(&blobs, &Digest::sha256(b"x"), 0).unwrap();
    assert_eq!(wrong.state(), BlobState::Wrong);
}

#[test]
fn a_manifest_keeps_its_bytes_and_type_and_a_damaged_one_is_removed() {
    let scratch = Scratch::new();
    let folder = scratch.folder();
    let blobs = Arc::new(Blobs::open(folder.clone(), 1 << 30).unwrap());
    let manifests = Manifests::new(folder.clone(), blobs.clone());
    let manifest = manifest("{\n}");
    assert_eq!(manifests.get(&manifest.digest).unwrap(), None);
    manifests.put(&manifest);
    assert_eq!(manifests.get(&manifest.digest).unwrap(), Some(manifest.clone()));
    std::fs::write(folder.manifest(&manifest.digest), b"text\n{ }").unwrap();
    assert_eq!(manifests.get(&manifest.digest).unwrap(), None);
    assert!(!folder.manifest(&manifest.digest).exists());
    assert_eq!((blobs.status().bytes, manifests.digests()), (0, vec![]));
}

fn manifest(text: &str) -> Manifest {
    let bytes = bytes::Bytes::copy_from_slice(text.as_bytes());
    let media_type = "application/vnd.oci.image.manifest.v1+json".to_owned();
    Manifest { digest: Digest::sha256(&bytes), media_type, bytes }
}

#[test]
fn manifests_and_tiny_blobs_count_as_what_they_take_on_disk() {
    let scratch = Scratch::new();
    let folder = scratch.folder();
    let bytes_max = 10 * disk_bytes(1);
    let manifest = |number: usize| manifest(&format!("{{\"a\": {number}}}"));
    let blob = Digest::sha256(b"x");
    {
        let blobs = Arc::new(Blobs::open(folder.clone(), bytes_max).unwrap());
        let manifests = Manifests::new(folder.clone(), blobs.clone());
        let open = open_partial(&blobs, &blob, 1).unwrap();
        write_all(&folder, &open, b"x", &[0]);
        assert_eq!((blobs.status().bytes, blobs.status().blobs), (2 * disk_bytes(1), 1));
        for number in 0..100 {
            manifests.put(&manifest(number));
            assert!(manifests.get(&manifest(0).digest).unwrap().is_some(), "it is in use");
        }
        assert_eq!((manifests.digests().len(), blobs.status().bytes), (8, bytes_max));
        assert!(manifests.get(&manifest(50).digest).unwrap().is_none());
        assert!(manifests.get(&manifest(99).digest).unwrap().is_some());
        // The blob is used no more, and is the oldest.
        drop(open);
        manifests.put(&manifest(100));
        assert_eq!((blobs.status().blobs, blobs.status().evicted), (0, 1));
        assert_eq!(blobs.status().bytes, 9 * disk_bytes(1));
    }
    let blobs = Blobs::open(folder, 2 * disk_bytes(1)).unwrap();
    assert_eq!((blobs.manifests().len(), blobs.status().bytes), (2, 2 * disk_bytes(1)));
}

#[test]
fn a_file_that_a_power_failure_left_empty_short_or_blank_is_fetched_again() {
    let bytes = content(1);
    let digest = Digest::sha256(&bytes);
    let len = bytes.len() as u64;
    let zeros = vec![0; bytes.len()];
    let (short, block) = (&bytes[..bytes.len() - 1], &bytes[..BLOCK_BYTES]);
    for (left, is_list_left) in [
        (&b""[..], true),
        (b"", false),
        (short, true),
        (block, true),
        (&zeros, true),
        (&zeros, false),
    ] {
        let scratch = Scratch::new();
        let folder = scratch.folder();
        {
            let blobs = Blobs::open(folder.clone(), 1 << 30).unwrap();
            write_all(&folder, &open_partial(&blobs, &digest, len).unwrap(), &bytes, &[0, 1, 2]);
        }
        std::fs::write(folder.blob(&digest), left).unwrap();
        if !is_list_left {
            std::fs::write(Folder::block_list(&folder.blob(&digest)), b"").unwrap();
        }
        let blobs = Blobs::open(folder.clone(), 1 << 30).unwrap();
        blobs.index_all();
        assert!(blobs.complete(&digest).unwrap().is_none(), "{} bytes", left.len());
        assert_eq!((blobs.status().blobs, folder.blob(&digest).exists()), (0, false));
        let blob = open_partial(&blobs, &digest, len).unwrap();
        assert_eq!(write_all(&folder, &blob, &bytes, &[0, 1, 2]), BlobState::Complete);
        assert!(blobs.complete(&digest).unwrap().is_some());
    }
}

#[test]
fn a_damaged_blob_is_removed_when_another_host_asks_for_a_block() {
    let scratch = Scratch::new();
    let folder = scratch.folder();
    let blobs = Blobs::open(folder.clone(), 1 << 30).unwrap();
    let bytes = content(1);
    let digest = Digest::sha256(&bytes);
    write_all(
        &folder,
        &open_partial(&blobs, &digest, bytes.len() as u64).unwrap(),
        &bytes,
        &[0, 1, 2],
    );
    let file = File::options().write(true).open(folder.blob(&digest)).unwrap();
    let at = 2 * BLOCK_BYTES as u64;
    std::os::unix::fs::FileExt::write_all_at(&file, b"damage", at).unwrap();
    let last = Block::raw(bytes::Bytes::copy_from_slice(block_of(&bytes, 2))).unwrap();
    assert!(blobs.block(&hash_of(last.cid()).unwrap()).unwrap().is_none());
    assert!(blobs.complete(&digest).unwrap().is_none());
}

use std::fs::File;
