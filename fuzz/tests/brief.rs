//! A short, repeatable round of every target.

use std::collections::BTreeSet;
use std::fs;

use fuzz::{Campaign, TARGETS, artifact, read_seeds, seeds_folder};

/// Inputs for each target. More of them is what `make fuzz` is for.
const THROWS: u64 = 3000;

/// Always the same, so that a failure is the change's and not the day's.
const SEED: u64 = 1;

#[test]
fn every_target_copes_with_its_seeds_and_what_dice_make_of_them() {
    let mut failed = false;
    for target in TARGETS {
        let campaign = Campaign::new(target, read_seeds(target.name).unwrap(), SEED);
        if let Err(failure) =
            campaign.run_seeds().and_then(|()| campaign.run(|throw| throw < THROWS))
        {
            println!("{failure}\n  again: {}", artifact(&failure).unwrap());
            failed = true;
        }
    }
    assert!(!failed, "seed {SEED} broke a promise");
}

#[test]
fn every_target_has_seeds_and_every_folder_of_seeds_a_target() {
    let folders = fs::read_dir(seeds_folder()).unwrap();
    let folders: BTreeSet<_> =
        folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let targets: BTreeSet<_> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(folders, targets);
    for target in targets {
        assert!(!read_seeds(&target).unwrap().is_empty(), "{target}");
    }
}
