use std::fs;

use watchfire_store::{ReadBlocks, StoreError, WriteBlocks};

use crate::scratch::{Scratch, files_below};
use crate::{block, blocks_of, open, put_all};

#[test]
fn a_damaged_block_is_reported_once_and_can_be_put_again() {
    let scratch = Scratch::new();
    let store = open(&scratch, 10).unwrap();
    put_all(&store, &[block(0)]);
    let file = files_below(&scratch.join("blocks")).remove(0);
    fs::write(&file, b"block 1\n").unwrap();

    let error = store.get(block(0).cid()).unwrap_err();
    assert!(matches!(&error, StoreError::Damaged { path, .. } if *path == file), "{error}");
    assert!(!file.exists());
    assert_eq!(store.get(block(0).cid()).unwrap(), None);
    assert_eq!((store.totals().blocks, store.totals().damaged), (0, 1));

    store.put(&block(0)).unwrap();
    assert_eq!(store.get(block(0).cid()).unwrap(), Some(block(0)));
}

#[test]
fn a_block_whose_file_was_removed_is_reported_as_damaged() {
    let scratch = Scratch::new();
    let store = open(&scratch, 10).unwrap();
    put_all(&store, &[block(0)]);
    fs::remove_file(files_below(&scratch.join("blocks")).remove(0)).unwrap();
    let error = store.get(block(0).cid()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(!store.has(block(0).cid()));
}

/// A power failure can leave empty files, truncated files and temporary files.
#[test]
fn files_damaged_by_a_power_failure_are_removed_or_detected() {
    let scratch = Scratch::new();
    put_all(&open(&scratch, 10).unwrap(), &blocks_of(0..3));
    let files = files_below(&scratch.join("blocks"));
    fs::write(&files[0], b"").unwrap();
    let half = fs::read(&files[1]).unwrap()[..3].to_vec();
    fs::write(&files[1], half).unwrap();
    scratch.file("temp/17", b"blo");
    scratch.file("blocks/note.txt", b"not ours\n");

    let store = open(&scratch, 10).unwrap();
    assert_eq!(store.totals().blocks, 2);
    assert_eq!(files_below(&scratch.join("temp")).len(), 0);
    let results = blocks_of(0..3).into_iter().map(|block| store.get(block.cid()));
    let (mut right, mut damaged, mut absent) = (0, 0, 0);
    for result in results {
        match result {
            Ok(Some(_)) => right += 1,
            Ok(None) => absent += 1,
            Err(StoreError::Damaged { .. }) => damaged += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((right, damaged, absent), (1, 1, 1));
    assert!(scratch.join("blocks/note.txt").exists());
}

#[test]
fn a_store_with_an_invalid_list_of_pins_is_not_opened() {
    let scratch = Scratch::new();
    let store = open(&scratch, 10).unwrap();
    store.pin(block(0).cid()).unwrap();
    drop(store);
    let pins = fs::read_to_string(scratch.join("pins")).unwrap();
    scratch.file("pins", format!("{pins}bafkrei\n").as_bytes());
    let error = open(&scratch, 10).unwrap_err();
    assert!(matches!(error, StoreError::InvalidPin { line: 2, .. }), "{error}");
    scratch.file("pins", pins.as_bytes());
    assert_eq!(open(&scratch, 10).unwrap().pins(), [block(0).cid().clone()]);
}
