use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::sync::Barrier;
use std::thread;

use watchfire_content::{Block, Cid, Codec, Multihash};
use watchfire_store::{DiskLimits, DiskStore, ReadBlocks, StoreError, WriteBlocks};

use crate::scratch::{Scratch, files_below};
use crate::{PAGE_BYTES, block, blocks_of, open, put_all};

fn has(store: &DiskStore, numbers: &[u32]) -> bool {
    numbers.iter().all(|number| store.has(block(*number).cid()))
}

#[test]
fn blocks_are_found_after_a_restart_under_every_cid_of_their_hash() {
    let scratch = Scratch::new();
    put_all(&open(&scratch, 100).unwrap(), &blocks_of(0..10));

    let store = open(&scratch, 100).unwrap();
    for block in blocks_of(0..10) {
        assert_eq!(store.get(block.cid()).unwrap().as_ref(), Some(&block));
        assert_eq!(store.len_of(block.cid()), Some(block.bytes().len() as u64));
    }
    let other_name = Cid::v1(Codec::DAG_PB, block(3).cid().hash().clone());
    assert_eq!(store.get(&other_name).unwrap().unwrap().cid(), &other_name);
    assert_eq!(store.get(block(10).cid()).unwrap(), None);
    assert_eq!((store.totals().blocks, store.totals().bytes), (10, 10 * PAGE_BYTES));
}

#[test]
fn a_block_is_stored_as_a_file_that_is_named_by_its_cid() {
    let scratch = Scratch::new();
    put_all(&open(&scratch, 100).unwrap(), &[block(0)]);
    let files = files_below(&scratch.join("blocks"));
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].file_name().unwrap().to_str().unwrap(), block(0).cid().to_string());
    assert_eq!(&fs::read(&files[0]).unwrap(), block(0).bytes());
}

#[test]
fn a_block_that_its_cid_contains_needs_no_file() {
    let scratch = Scratch::new();
    let store = open(&scratch, 1).unwrap();
    let empty = Block::raw("".into()).unwrap();
    let inline = Cid::v1(Codec::RAW, Multihash::identity(b"hi").unwrap());
    let inline = Block::from_cid(&inline).unwrap();
    put_all(&store, &[empty.clone(), inline.clone()]);
    assert_eq!(store.get(empty.cid()).unwrap(), Some(empty));
    assert_eq!(store.get(inline.cid()).unwrap(), Some(inline));
    assert_eq!(store.totals().blocks, 0);
}

#[test]
fn a_full_store_evicts_the_least_recently_used_block() {
    let scratch = Scratch::new();
    let store = open(&scratch, 3).unwrap();
    put_all(&store, &blocks_of(0..3));
    store.get(block(0).cid()).unwrap();
    put_all(&store, &[block(3)]);
    assert!(has(&store, &[0, 2, 3]) && !has(&store, &[1]));
    assert_eq!((store.totals().blocks, store.totals().evicted), (3, 1));
    assert_eq!(files_below(&scratch.join("blocks")).len(), 3);
}

#[test]
fn a_store_that_is_opened_with_a_lower_limit_evicts_blocks() {
    let scratch = Scratch::new();
    put_all(&open(&scratch, 10).unwrap(), &blocks_of(0..10));
    let store = open(&scratch, 4).unwrap();
    assert_eq!((store.totals().blocks, store.totals().evicted), (4, 6));
    assert_eq!(files_below(&scratch.join("blocks")).len(), 4);
}

#[test]
fn a_block_that_is_larger_than_the_store_evicts_nothing() {
    let scratch = Scratch::new();
    let store = open(&scratch, 2).unwrap();
    put_all(&store, &blocks_of(0..2));
    let large = Block::raw(vec![7; 3 * PAGE_BYTES as usize].into()).unwrap();
    let error = store.put(&large).unwrap_err();
    let (needed, max) = (3 * PAGE_BYTES, 2 * PAGE_BYTES);
    assert!(
        matches!(error, StoreError::Full { needed: n, held: 0, max: m } if (n, m) == (needed, max)),
        "{error}"
    );
    assert!(has(&store, &[0, 1]));
}

#[test]
fn a_removed_block_frees_its_room() {
    let scratch = Scratch::new();
    let store = open(&scratch, 100).unwrap();
    put_all(&store, &blocks_of(0..2));
    assert!(store.remove(block(0).cid()).unwrap() && !store.remove(block(0).cid()).unwrap());
    assert!(has(&store, &[1]) && !has(&store, &[0]));
    assert_eq!(store.totals().bytes, PAGE_BYTES);
}

#[test]
fn opening_a_store_twice_fails_and_names_the_first_process() {
    let scratch = Scratch::new();
    let store = open(&scratch, 1).unwrap();
    let Err(StoreError::Locked { owner, .. }) = open(&scratch, 1) else {
        panic!("the store was opened twice")
    };
    assert_eq!(owner, std::process::id().to_string());
    drop(store);
    open(&scratch, 1).unwrap();
}

#[test]
fn a_folder_with_other_files_is_not_opened() {
    let scratch = Scratch::new();
    scratch.file("letter.txt", b"Dear reader\n");
    let error = open(&scratch, 1).unwrap_err();
    assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");
    assert_eq!(files_below(&scratch).len(), 1);
}

#[test]
fn a_store_of_another_format_is_not_opened() {
    let scratch = Scratch::new();
    put_all(&open(&scratch, 1).unwrap(), &[block(0)]);
    scratch.file("store", b"watchfire block store 2\n");
    let error = open(&scratch, 1).unwrap_err();
    assert!(matches!(error, StoreError::UnknownFormat { .. }), "{error}");
    assert_eq!(files_below(&scratch.join("blocks")).len(), 1);
}

#[test]
fn concurrent_writes_of_the_same_blocks_keep_a_small_store_consistent() {
    let scratch = Scratch::new();
    let (blocks_max, threads) = (8, 4);
    let store = open(&scratch, blocks_max + threads).unwrap();
    let start = Barrier::new(threads as usize);
    thread::scope(|scope| {
        for thread in 0..threads as u32 {
            let (store, start) = (&store, &start);
            scope.spawn(move || {
                start.wait();
                for turn in 0..300 {
                    let block = block((turn * (thread + 1)) % 40);
                    store.put(&block).unwrap();
                    // Another thread may have evicted it already; wrong bytes are never returned.
                    if let Some(found) = store.get(block.cid()).unwrap() {
                        assert_eq!(found, block);
                    }
                }
            });
        }
    });
    let totals = store.totals();
    assert_eq!(totals.damaged, 0);
    // Threads that write the same block at the same time each reserve room for it.
    assert!((blocks_max + 1..=blocks_max + threads).contains(&totals.blocks), "{totals:?}");
    assert_eq!(files_below(&scratch.join("blocks")).len() as u64, totals.blocks);
    assert_eq!(files_below(&scratch.join("temp")).len(), 0);
}

#[test]
fn a_store_of_this_user_alone_is_not_made_in_the_folder_of_another() {
    let scratch = Scratch::new();
    scratch.file("victim/precious", b"mine");
    // Another user cannot make a folder of this one, but a link to it.
    symlink(scratch.join("victim"), scratch.join("linked")).unwrap();
    // Without the right to give a folder away, one of the system is that of another user.
    fs::create_dir(scratch.join("given")).unwrap();
    let given = match chown(scratch.join("given"), Some(12_345), None) {
        Ok(()) => scratch.join("given"),
        Err(_) => "/usr".into(),
    };
    for folder in [scratch.join("linked"), given] {
        let opened = DiskStore::open_own(&folder, DiskLimits::default());
        assert!(matches!(opened, Err(StoreError::NotOwn { .. })), "{opened:?}");
    }
    let own = scratch.join("own");
    drop(DiskStore::open_own(&own, DiskLimits::default()).unwrap());
    assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
    drop(DiskStore::open_own(&own, DiskLimits::default()).unwrap());
    fs::remove_file(own.join("lock")).unwrap();
    symlink(scratch.join("victim/precious"), own.join("lock")).unwrap();
    assert!(DiskStore::open(&own, DiskLimits::default()).is_err());
    assert_eq!(fs::read(scratch.join("victim/precious")).unwrap(), b"mine");
}

#[test]
fn stores_that_are_opened_and_removed_at_the_same_time_have_one_owner_each() {
    let scratch = Scratch::new();
    let folder = scratch.join("store");
    thread::scope(|threads| {
        for number in 0..4 {
            let folder = &folder;
            threads.spawn(move || {
                for round in 0..15 {
                    let store = loop {
                        match DiskStore::open_own(folder, DiskLimits::default()) {
                            Err(StoreError::Locked { .. }) => thread::yield_now(),
                            opened => break opened.unwrap(),
                        }
                    };
                    assert_eq!(store.totals().blocks, 0, "another one has it");
                    put_all(&store, &[block(number * 100 + round)]);
                    store.remove_folder().unwrap();
                }
            });
        }
    });
    assert!(!folder.exists());
}
