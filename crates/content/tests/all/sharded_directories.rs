use std::collections::BTreeSet;

use serde::Deserialize;
use watchfire_content::{BlockStore, Cid, Lookup, LookupStep, Walk, WalkStep, list};

use crate::directories::Built;
use crate::{Cids, vectors};

/// `sharded_directories.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShardedDirectories {
    #[expect(dead_code, reason = "`Built::numbered` implements it")]
    rule: String,
    directories: Vec<ShardedDirectory>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShardedDirectory {
    profile: String,
    count: usize,
    name_digits: usize,
    cid: String,
    dag_bytes: u64,
    blocks: usize,
    found: Found,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Found {
    name: String,
    cid: String,
}

fn look_up(built: &Built, root: &Cid, name: &str) -> (LookupStep, usize) {
    let mut lookup = Lookup::new(root.clone(), name);
    let mut read = 0;
    loop {
        let block = built.store.get(lookup.next()).unwrap();
        read += 1;
        match lookup.take(&block).unwrap() {
            LookupStep::Continue => {}
            end => return (end, read),
        }
    }
}

#[test]
fn large_directories_are_sharded_as_by_kubo() {
    let cids = Cids::read();
    for vector in vectors::<ShardedDirectories>("sharded_directories.json").directories {
        let mut built = Built::new(cids.profile(&vector.profile));
        let root = built.numbered(vector.count, vector.name_digits, |name| name);
        assert_eq!((root.cid.to_string(), root.dag_bytes), (vector.cid, vector.dag_bytes));
        assert_eq!(built.store.len(), vector.blocks, "the store has no other blocks");

        let mut walk = Walk::new(root.cid.clone(), vector.blocks);
        let mut visited = 0;
        while let WalkStep::Block(_) = walk.step(&built.store).unwrap() {
            visited += 1;
        }
        assert_eq!(visited, vector.blocks);

        let Found { name, cid } = vector.found;
        let (LookupStep::Found(entry), read) = look_up(&built, &root.cid, &name) else {
            panic!("{name} was not found")
        };
        assert_eq!((entry.cid.to_string(), &entry.name), (cid, &name));
        assert!(read <= 4, "{read} nodes were read");
        let (absent, _) = look_up(&built, &root.cid, "absent");
        assert_eq!(absent, LookupStep::NotFound);

        let listed = list(&built.store, &root.cid, vector.count).unwrap();
        let names: BTreeSet<_> = listed.entries().iter().map(|entry| &entry.name).collect();
        assert_eq!(names.len(), vector.count);
        assert!(list(&built.store, &root.cid, vector.count - 1).is_err());
    }
}
