use store::{DiskLimits, DiskStore, ReadBlocks, StoreError, WriteBlocks};

use crate::scratch::Scratch;
use crate::{PAGE_BYTES, block, blocks_of, open, put_all, tree};

#[test]
fn what_a_root_leads_to_stays_and_the_rest_goes() {
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
fn what_is_pinned_before_it_comes_stays_in_whatever_order_it_comes() {
    for is_backwards in [false, true] {
        let scratch = Scratch::new();
        let store = open(&scratch, 6).unwrap();
        let (root, mut blocks) = tree();
        store.pin(&root).unwrap();
        if is_backwards {
            // Leaves that come before the node above them are anyone's until it is here.
            blocks.reverse();
        }
        put_all(&store, &blocks);
        put_all(&store, &blocks_of(0..20));
        assert!(blocks.iter().all(|block| store.has(block.cid())));
    }
}

#[test]
fn pins_outlive_the_process_that_set_them() {
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
fn what_two_roots_share_stays_until_neither_is_pinned() {
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
fn a_store_of_nothing_but_pins_refuses_more_and_keeps_them() {
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
fn a_pin_that_would_keep_too_much_is_refused_and_keeps_nothing() {
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
