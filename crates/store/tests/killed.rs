//! A process that is killed while it writes leaves a store of whole blocks.
//!
//! This program is the test. With a folder in its environment it is the writer that is killed.

use std::fs;
use std::io::{BufRead, BufReader, Write, stdout};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use watchfire_content::Block;
use watchfire_store::{DiskLimits, DiskStore, ReadBlocks, StoreError, WriteBlocks};

const FOLDER: &str = "WATCHFIRE_TEST_STORE";
const ROUND: &str = "WATCHFIRE_TEST_ROUND";

const ROUNDS: u64 = 20;
const THREADS: u64 = 4;
/// Long blocks, so that the writer is mostly killed within a block.
const BLOCK_BYTES: usize = 1 << 20;
const BLOCKS_MAX: u64 = 40;

const LIMITS: DiskLimits =
    DiskLimits { bytes_max: BLOCKS_MAX * BLOCK_BYTES as u64, pinned_blocks_max: 1000 };

fn main() {
    match (std::env::var_os(FOLDER), std::env::var(ROUND)) {
        (Some(folder), Ok(round)) => write_for_ever(Path::new(&folder), round.parse().unwrap()),
        _ => a_writer_that_is_killed_at_any_moment_leaves_whole_blocks(),
    }
}

fn block(number: u64) -> Block {
    let mut bytes = vec![number as u8; BLOCK_BYTES];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Block::raw(bytes.into()).unwrap()
}

/// Stores one block after the other, prints each, and pins every fourth.
fn write_for_ever(folder: &Path, round: u64) {
    let store = DiskStore::open(folder, LIMITS).unwrap();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                for number in (round * 1_000_000 + thread..).step_by(THREADS as usize) {
                    let block = block(number);
                    store.put(&block).unwrap();
                    if number % 4 == 0 {
                        store.pin(block.cid()).unwrap();
                        for old in store.pins().iter().rev().skip(8) {
                            store.unpin(old).unwrap();
                        }
                    }
                    // Atomic: the line is shorter than the atomic size of a pipe.
                    let line = format!("{number}\n");
                    stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

fn start_writer(folder: &Path, round: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(FOLDER, folder).env(ROUND, round.to_string());
    command.stdout(Stdio::piped()).spawn().unwrap()
}

fn a_writer_that_is_killed_at_any_moment_leaves_whole_blocks() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let mut half_written = 0;
    for round in 0..ROUNDS {
        let mut writer = start_writer(folder, round);
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        // The number of blocks grows beyond the limit of the store, so that it evicts as well.
        let wait_for = 3 + round as usize * 3;
        let mut put: Vec<u64> =
            lines.by_ref().take(wait_for).map(|line| line.unwrap().parse().unwrap()).collect();
        let second = DiskStore::open(folder, LIMITS);
        let owner = writer.id().to_string();
        assert!(matches!(second, Err(StoreError::Locked { owner: o, .. }) if o == owner));
        writer.kill().unwrap();
        writer.wait().unwrap();
        put.extend(lines.filter_map(|line| line.unwrap().parse::<u64>().ok()));
        half_written += fs::read_dir(folder.join("temp")).unwrap().count();

        check(folder, round, &put);
    }
    assert!(half_written > 0, "no writer was killed in the middle of a block");
    println!("{ROUNDS} writers were killed, {half_written} blocks half-written");
}

fn check(folder: &Path, round: u64, put: &[u64]) {
    let store = DiskStore::open(folder, LIMITS).unwrap();
    assert_eq!(fs::read_dir(folder.join("temp")).unwrap().count(), 0);
    let mut found_count = 0;
    for number in put {
        match store.get(block(*number).cid()) {
            Ok(Some(found)) => {
                assert_eq!(found, block(*number));
                found_count += 1;
            }
            Ok(None) => {}
            Err(error) => panic!("round {round}: {error}"),
        }
    }
    // The last blocks are too recent to be evicted, whatever was pinned.
    let recent = put.len().saturating_sub(THREADS as usize).min(BLOCKS_MAX as usize / 4);
    assert!(found_count >= recent, "round {round}: {found_count} of {} are stored", put.len());
    for pin in store.pins() {
        assert!(store.has(&pin), "round {round}: {pin} is pinned but not stored");
    }
    let totals = store.totals();
    assert!(totals.bytes <= LIMITS.bytes_max && totals.damaged == 0, "round {round}: {totals:?}");
}
