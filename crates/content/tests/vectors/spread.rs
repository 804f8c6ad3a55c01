use std::collections::BTreeSet;

use content::{BlockStore, Cid, LookedUp, Lookup, Visit, Walk, list};
use serde::Deserialize;

use crate::directories::Built;
use crate::{Cids, vectors};

/// `spread.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spread {
    #[expect(dead_code, reason = "said again in `SpreadVector::build`")]
    rule: String,
    directories: Vec<SpreadVector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpreadVector {
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

fn look_up(built: &Built, root: &Cid, name: &str) -> (LookedUp, usize) {
    let mut lookup = Lookup::new(root.clone(), name);
    let mut read = 0;
    loop {
        let block = built.store.get(lookup.next()).unwrap();
        read += 1;
        match lookup.take(&block).unwrap() {
            LookedUp::Further => {}
            end => return (end, read),
        }
    }
}

#[test]
fn directories_are_spread_over_nodes_as_kubo_does_it() {
    let cids = Cids::read();
    for vector in vectors::<Spread>("spread.json").directories {
        let mut built = Built::new(cids.profile(&vector.profile));
        let root = built.numbered(vector.count, vector.name_digits, |name| name);
        assert_eq!((root.cid.to_string(), root.dag_bytes), (vector.cid, vector.dag_bytes));
        assert_eq!(built.store.len(), vector.blocks, "and none that is not linked");

        let mut walk = Walk::new(root.cid.clone(), vector.blocks);
        let mut visited = 0;
        while let Visit::Here(_) = walk.visit(&built.store).unwrap() {
            visited += 1;
        }
        assert_eq!(visited, vector.blocks);

        let Found { name, cid } = vector.found;
        let (LookedUp::Found(entry), read) = look_up(&built, &root.cid, &name) else {
            panic!("{name} was not found")
        };
        assert_eq!((entry.cid.to_string(), &entry.name), (cid, &name));
        assert!(read <= 4, "{read} nodes were read");
        let (absent, _) = look_up(&built, &root.cid, "absent");
        assert_eq!(absent, LookedUp::Absent);

        let listed = list(&built.store, &root.cid, vector.count).unwrap();
        let names: BTreeSet<_> = listed.entries().iter().map(|entry| &entry.name).collect();
        assert_eq!(names.len(), vector.count);
        assert!(list(&built.store, &root.cid, vector.count - 1).is_err());
    }
}
