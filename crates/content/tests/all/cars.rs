use serde::Deserialize;
use watchfire_content::car::{self, CarItem, CarReader};
use watchfire_content::{BlockStore, Cid, Codec, MemoryStore, Multihash, Root, Walk, WalkStep};

use crate::directories::{Built, EntryVector};
use crate::{Cids, from_hex, generated, vectors};

/// `cars.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cars {
    cars: Vec<CarVector>,
}

/// An export of kubo. Exactly one of `entries`, `generated` and `sharded` is set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CarVector {
    profile: String,
    entries: Option<Vec<EntryVector>>,
    generated: Option<usize>,
    sharded: Option<Numbered>,
    cid: String,
    bytes: usize,
    sha256: String,
    hex: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Numbered {
    count: usize,
    name_digits: usize,
}

impl CarVector {
    fn build(&self, built: &mut Built) -> Root {
        match (&self.entries, self.generated, &self.sharded) {
            (Some(entries), None, None) => built.entries(entries),
            (None, Some(bytes), None) => built.file(generated(bytes)),
            (None, None, Some(Numbered { count, name_digits })) => {
                built.numbered(*count, *name_digits, |name| name)
            }
            _ => panic!("{}: not exactly one content", self.cid),
        }
    }
}

fn exported(store: &MemoryStore, root: &Cid) -> Vec<u8> {
    let mut archive = car::header(std::slice::from_ref(root));
    let mut walk = Walk::new(root.clone(), 10_000);
    loop {
        match walk.step(store).unwrap() {
            WalkStep::Block(block) => {
                archive.extend(car::section_head(&block));
                archive.extend_from_slice(block.bytes());
            }
            WalkStep::Missing(cid) => panic!("{cid} is missing"),
            WalkStep::End => return archive,
        }
    }
}

fn imported(archive: &[u8], piece: usize) -> (Vec<Cid>, MemoryStore) {
    let (mut roots, mut store) = (None, MemoryStore::new(64 << 20));
    let mut reader = CarReader::default();
    for piece in archive.chunks(piece) {
        reader.push(piece);
        while let Some(item) = reader.next().unwrap() {
            match item {
                CarItem::Roots(named) => assert!(roots.replace(named).is_none()),
                CarItem::Block(block) => store.put(block).unwrap(),
            }
        }
    }
    reader.finish().unwrap();
    (roots.unwrap(), store)
}

#[test]
fn archives_are_identical_to_exports_of_kubo() {
    let cids = Cids::read();
    for vector in vectors::<Cars>("cars.json").cars {
        let mut built = Built::new(cids.profile(&vector.profile));
        let root = vector.build(&mut built);
        assert_eq!(root.cid.to_string(), vector.cid);

        let archive = exported(&built.store, &root.cid);
        if let Some(hex) = &vector.hex {
            assert_eq!(archive, from_hex(hex), "{}", vector.cid);
        }
        assert_eq!(archive.len(), vector.bytes, "{}", vector.cid);
        let hash = Multihash::Sha2_256(from_hex(&vector.sha256).try_into().unwrap());
        assert!(Cid::v1(Codec::RAW, hash).is_of(&archive), "{}", vector.cid);

        let (roots, store) = imported(&archive, 50_000);
        assert_eq!(roots, std::slice::from_ref(&root.cid));
        assert_eq!(exported(&store, &root.cid), archive);
    }
}
