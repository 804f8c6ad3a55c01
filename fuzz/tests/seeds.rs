//! Every target, with its seeds and with small changes of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fuzz::{TARGETS, Target};

/// Changed inputs for each target. `make fuzz` finds the deeper ones.
const CHANGED_INPUTS_MAX: usize = 3000;

fn seeds_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds")
}

/// The seeds of a target with their names, in the order of the names.
fn seeds(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = fs::read_dir(seeds_folder().join(target.name)).unwrap();
    let mut paths: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// `seed` cut off at every place, and with every byte changed in three ways.
fn changed(seed: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..seed.len()).flat_map(move |at| {
        let replaced = [0, 0xff, seed[at] ^ 1].map(|byte| {
            let mut input = seed.to_vec();
            input[at] = byte;
            input
        });
        replaced.into_iter().chain([seed[..at].to_vec()])
    })
}

#[test]
fn every_target_keeps_its_promises_for_its_seeds_and_small_changes_of_them() {
    let mut failures = Vec::new();
    for target in TARGETS {
        let seeds = seeds(target);
        let changes_per_seed = CHANGED_INPUTS_MAX / seeds.len();
        for (path, seed) in &seeds {
            // Spread over the whole seed, where it is too long for every change.
            let step = (4 * seed.len() / changes_per_seed).max(1) | 1;
            let inputs = [seed.clone()].into_iter().chain(changed(seed).step_by(step));
            let failed = |input: &Vec<u8>| target.run(input).err();
            if let Some((input, error)) =
                inputs.filter_map(|input| failed(&input).map(|error| (input, error))).next()
            {
                failures.push(format!(
                    "{} {error}: {} with {input:?}",
                    target.name,
                    path.display()
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_target_has_seeds_and_every_folder_of_seeds_has_a_target() {
    let folders = fs::read_dir(seeds_folder()).unwrap();
    let folders: BTreeSet<_> =
        folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let targets: BTreeSet<_> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(folders, targets);
    assert!(TARGETS.iter().all(|target| !seeds(target).is_empty()));
}
