use watchfire_store::{DiskLimits, DiskStore, ReadBlocks, StoreError, WriteBlocks};

use crate::scratch::Scratch;
use crate::{PAGE_BYTES, block, blocks_of, open, put_all, tree};

#[test]
fn the_blocks_of_a_pinned_root_stay_and_others_are_evicted() {
    let scratch = Scratch::new();
    let store = open(&scratch, 6).unwrap();
    let (root, blocks) = tree();
    put_all(&store, &blocks);
    assert!(store.pin(&root).unwrap() && !store.pin(&root).unwrap());
    put_all(&store, &blocks_of(0..20));
    assert!(blocks.iter().all(|block| store.has(block.cid())));
    assert_eq!((store.totals().blocks, store.totals().pinned_blocks), (6, 5));

    assert!(store.unpin(&root).unwrap() && !store.unpin(&root).unwrap());
    put_all(&store, &blocks_of(20..26));
    assert!(!blocks.iter().any(|block| store.has(block.cid())));
}

#[test]
fn blocks_of_a_pinned_root_stay_in_whatever_order_they_arrive() {
    for is_backwards in [false, true] {
        let scratch = Scratch::new();
        let store = open(&scratch, 6).unwrap();
        let (root, mut blocks) = tree();
        store.pin(&root).unwrap();
        if is_backwards {
            // A leaf that arrives before its node is not protected until the node arrives.
            blocks.reverse();
        }
        put_all(&store, &blocks);
        put_all(&store, &blocks_of(0..20));
        assert!(blocks.iter().all(|block| store.has(block.cid())));
    }
}

#[test]
fn pins_survive_a_restart() {
    let scratch = Scratch::new();
    let (root, blocks) = tree();
    let store = open(&scratch, 100).unwrap();
    put_all(&store, &blocks);
    put_all(&store, &blocks_of(0..20));
    store.pin(&root).unwrap();
    drop(store);

    let store = open(&scratch, 6).unwrap();
    assert_eq!(store.pins(), [root]);
    assert!(blocks.iter().all(|block| store.has(block.cid())));
    put_all(&store, &blocks_of(20..40));
    assert!(blocks.iter().all(|block| store.has(block.cid())));
}

#[test]
fn a_block_of_two_pinned_roots_stays_until_both_are_unpinned() {
    let scratch = Scratch::new();
    let store = open(&scratch, 6).unwrap();
    let (root, blocks) = tree();
    let file = blocks[1].cid();
    put_all(&store, &blocks);
    store.pin(&root).unwrap();
    store.pin(file).unwrap();
    store.unpin(&root).unwrap();
    put_all(&store, &blocks_of(0..20));
    assert!(blocks[1..].iter().all(|block| store.has(block.cid())));
    assert!(!store.has(&root));
}

#[test]
fn a_store_full_of_pinned_blocks_rejects_new_blocks() {
    let scratch = Scratch::new();
    let store = open(&scratch, 5).unwrap();
    let (root, blocks) = tree();
    put_all(&store, &blocks);
    store.pin(&root).unwrap();
    let error = store.put(&block(0)).unwrap_err();
    let held = 5 * PAGE_BYTES;
    assert!(matches!(error, StoreError::Full { held: h, .. } if h == held), "{error}");
    assert!(blocks.iter().all(|block| store.has(block.cid())));
}

#[test]
fn a_pin_of_too_many_blocks_is_rejected_and_protects_nothing() {
    let scratch = Scratch::new();
    let limits = DiskLimits { pinned_blocks_max: 4, ..DiskLimits::default() };
    let store = DiskStore::open(&scratch, limits).unwrap();
    let (root, blocks) = tree();
    put_all(&store, &blocks);
    let error = store.pin(&root).unwrap_err();
    assert!(matches!(error, StoreError::TooManyPinned { max: 4 }), "{error}");
    assert_eq!((store.pins(), store.totals().pinned_blocks), (vec![], 0));
    assert!(store.pin(blocks[1].cid()).unwrap());
}
