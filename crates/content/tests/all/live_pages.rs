//! `live/pages.json`: the format of live pages, and histories that learn of them.

use serde::Deserialize;
use watchfire_content::live::{
    Beginning, ENTRIES_MAX, Entry, Form, Head, History, LiveError, NewEntry, Offer, PublisherKey,
};
use watchfire_content::{Block, BlockStore as _, Cid, MemoryStore, Version};

use crate::from_hex;

#[derive(Deserialize)]
struct Vectors {
    seed: String,
    key: String,
    beginning: BeginningVector,
    entries: Vec<EntryVector>,
    heads: Vec<String>,
    other_branch: OtherBranch,
    refused_beginnings: Vec<Refused>,
    refused_entries: Vec<Refused>,
    refused_heads: Vec<Refused>,
}

#[derive(Deserialize)]
struct BeginningVector {
    title: String,
    time_ms: u64,
    cid: String,
    hex: String,
}

#[derive(Deserialize)]
struct EntryVector {
    number: u32,
    time_ms: u64,
    form: String,
    name: String,
    content: String,
    content_bytes: u64,
    cid: String,
    hex: String,
}

#[derive(Deserialize)]
struct OtherBranch {
    from: u32,
    nodes: Vec<NodeVector>,
    head: String,
}

#[derive(Deserialize)]
struct NodeVector {
    cid: String,
    hex: String,
}

#[derive(Deserialize)]
struct Refused {
    why: String,
    hex: String,
    error: String,
}

fn vectors() -> Vectors {
    crate::vectors("live/pages.json")
}

impl Vectors {
    fn page(&self) -> Cid {
        self.beginning.cid.parse().unwrap()
    }

    fn signing_key(&self) -> PublisherKey {
        PublisherKey::from_seed(&from_hex(&self.seed).try_into().unwrap())
    }

    fn history(&self) -> History {
        let beginning = Beginning::decode(&from_hex(&self.beginning.hex).into()).unwrap();
        History::new(self.page(), beginning)
    }

    fn head(&self, number: usize) -> Vec<u8> {
        from_hex(&self.heads[number - 1])
    }

    /// The nodes of both branches.
    fn store(&self) -> MemoryStore {
        let mut store = MemoryStore::new(1 << 20);
        let entries = self.entries.iter().map(|entry| (&entry.cid, &entry.hex));
        let other = self.other_branch.nodes.iter().map(|node| (&node.cid, &node.hex));
        for (cid, hex) in entries.chain(other) {
            store.put(block(cid, hex)).unwrap();
        }
        store
    }
}

fn block(cid: &str, hex: &str) -> Block {
    Block::verify(cid.parse().unwrap(), from_hex(hex).into()).unwrap()
}

/// Fetches all missing nodes. Returns the number of rounds.
fn load(history: &mut History, store: &MemoryStore) -> usize {
    let mut rounds = 0;
    loop {
        let missing: Vec<Cid> = history.missing().cloned().collect();
        if missing.is_empty() {
            return rounds;
        }
        rounds += 1;
        for cid in missing {
            let block = store.get(&cid).expect("the node is stored");
            history.insert(&block).unwrap();
        }
    }
}

fn numbers(history: &History) -> Vec<u32> {
    history.entries().map(|entry| entry.number).collect()
}

#[test]
fn nodes_and_heads_have_the_bytes_of_the_vectors() {
    let vectors = vectors();
    let key = vectors.signing_key();
    assert_eq!(key.public(), from_hex(&vectors.key)[..]);
    let BeginningVector { title, time_ms, cid, hex } = &vectors.beginning;
    let beginning = Beginning { key: key.public(), time_ms: *time_ms, title: title.clone() };
    assert_eq!(beginning.block(), Ok(block(cid, hex)));
    assert_eq!(Beginning::decode(&from_hex(hex).into()), Ok(beginning.clone()));

    let mut history = History::new(vectors.page(), beginning);
    for (vector, head) in vectors.entries.iter().zip(&vectors.heads) {
        let new = NewEntry {
            time_ms: vector.time_ms,
            form: if vector.form == "file" { Form::File } else { Form::Text },
            name: vector.name.clone(),
            content: vector.content.parse().unwrap(),
            content_bytes: vector.content_bytes,
        };
        let (made, signed) = history.append(&key, new).unwrap();
        assert_eq!(made, block(&vector.cid, &vector.hex), "entry {}", vector.number);
        assert_eq!(signed.bytes()[..], from_hex(head));
        let entry = Entry::decode(made.bytes()).unwrap();
        assert_eq!(entry.block(), Ok(made));
        assert_eq!(Some(&entry), history.entries().last());
        assert_eq!(Head::verify(signed.bytes(), &vectors.page(), &key.public()), Ok(signed));
    }
    assert!(history.is_complete());
}

#[test]
fn invalid_nodes_and_heads_are_refused() {
    let vectors = vectors();
    let (page, key) = (vectors.page(), from_hex(&vectors.key).try_into().unwrap());
    let check = |refused: &[Refused], decode: &dyn Fn(Vec<u8>) -> Option<LiveError>| {
        for Refused { why, hex, error } in refused {
            let found = decode(from_hex(hex)).unwrap_or_else(|| panic!("accepted: {why}"));
            let name = format!("{found:?}");
            assert_eq!(name.split([' ', '(']).next(), Some(&error[..]), "{why}: {found}");
        }
    };
    check(&vectors.refused_beginnings, &|bytes| Beginning::decode(&bytes.into()).err());
    check(&vectors.refused_entries, &|bytes| Entry::decode(&bytes.into()).err());
    check(&vectors.refused_heads, &|bytes| Head::verify(&bytes, &page, &key).err());
}

#[test]
fn a_late_reader_finds_all_entries_from_one_head() {
    let vectors = vectors();
    let mut history = vectors.history();
    assert_eq!(history.offer(&vectors.head(9)), Ok(Offer::Newer));
    // Entry 2 comes last: 9, then 7, then 3, then 2.
    assert_eq!(load(&mut history, &vectors.store()), 4);
    assert!(history.is_complete());
    assert_eq!(numbers(&history), (1..=9).collect::<Vec<_>>());
    assert_eq!(history.offer(&vectors.head(9)), Ok(Offer::Same));
    assert_eq!(history.offer(&vectors.head(4)), Ok(Offer::Older));
    assert_eq!(history.heads().count(), 1);
    // The signature of a head that tells nothing new is not verified: only that of one with another entry is.
    let mut unsigned = vectors.head(4);
    *unsigned.last_mut().unwrap() ^= 1;
    assert_eq!(history.offer(&unsigned), Ok(Offer::Older));
    unsigned[60] ^= 1;
    assert_eq!(history.offer(&unsigned), Err(LiveError::Signature));
}

#[test]
fn a_reader_follows_each_head_and_catches_up_after_a_gap() {
    let vectors = vectors();
    let store = vectors.store();
    let mut history = vectors.history();
    for number in [1, 2, 7, 9] {
        assert_eq!(history.offer(&vectors.head(number)), Ok(Offer::Newer));
        load(&mut history, &store);
        assert_eq!(history.last() as usize, number);
        assert!(history.is_complete());
    }
    // Heads overtake the blocks of earlier ones.
    let mut history = vectors.history();
    for number in [2, 3, 5, 6, 9] {
        assert_eq!(history.offer(&vectors.head(number)), Ok(Offer::Newer));
        assert_eq!(history.offer(&vectors.head(1)), Ok(Offer::Older));
        let first: Option<Cid> = history.missing().next().cloned();
        if let Some(block) = first.and_then(|cid| store.get(&cid)) {
            history.insert(&block).unwrap();
        }
        assert_eq!(history.heads().next().map(|head| head.number as usize), Some(number));
    }
    load(&mut history, &store);
    assert!(history.is_complete());
    assert_eq!(numbers(&history), (1..=9).collect::<Vec<_>>());
}

#[test]
fn a_page_with_the_most_entries_is_found_in_fourteen_rounds_and_takes_no_more() {
    let key = PublisherKey::from_seed(&[7; 32]);
    let beginning = Beginning { key: key.public(), time_ms: 0, title: String::new() };
    let page = beginning.block().unwrap();
    let mut publisher = History::new(page.cid().clone(), beginning.clone());
    let mut store = MemoryStore::new(64 << 20);
    let new = || NewEntry {
        time_ms: 0,
        form: Form::Text,
        name: String::new(),
        content: Block::raw("x".into()).unwrap().cid().clone(),
        content_bytes: 1,
    };
    for _ in 0..ENTRIES_MAX {
        store.put(publisher.append(&key, new()).unwrap().0).unwrap();
    }
    let number = ENTRIES_MAX + 1;
    assert_eq!(publisher.append(&key, new()), Err(LiveError::Number { number }));
    assert_eq!(publisher.last(), ENTRIES_MAX);

    let mut reader = History::new(page.cid().clone(), beginning);
    let head = publisher.heads().next().unwrap();
    reader.offer(head.bytes()).unwrap();
    assert!(load(&mut reader, &store) <= 14);
    assert!(reader.is_complete());
}

#[test]
fn a_key_that_is_used_twice_splits_the_page_where_the_branches_differ() {
    let vectors = vectors();
    let (store, other) = (vectors.store(), from_hex(&vectors.other_branch.head));
    // The other head has a number that the reader knows: it learns the branches' common part from
    // links; or a higher one; or the reader has nothing yet of its own branch but the head.
    for known in [9, 6, 5] {
        let mut history = vectors.history();
        history.offer(&vectors.head(known)).unwrap();
        load(&mut history, &store);
        assert_eq!(history.offer(&other), Ok(Offer::Newer));
        load(&mut history, &store);
        let split = history.split().expect("the page is split");
        assert_eq!(split.number, vectors.other_branch.from);
        assert_eq!(split.other_head.bytes()[..], other);
        assert_eq!(numbers(&history), (1..=known as u32).collect::<Vec<_>>());
        assert_eq!(history.heads().count(), 2);
        assert_eq!(
            history.offer(&vectors.head(9)),
            Ok(if known == 9 { Offer::Same } else { Offer::Split })
        );
        assert_eq!(history.last() as usize, known);
    }
    // From the other side, the head has a known number.
    let mut history = vectors.history();
    history.offer(&other).unwrap();
    load(&mut history, &store);
    assert_eq!(history.offer(&vectors.head(9)), Ok(Offer::Split));
    load(&mut history, &store);
    assert_eq!(history.split().map(|split| split.number), Some(vectors.other_branch.from));
    // A reader that has no entry above the common part cannot see a split.
    let mut history = vectors.history();
    history.offer(&vectors.head(4)).unwrap();
    load(&mut history, &store);
    history.offer(&other).unwrap();
    load(&mut history, &store);
    assert_eq!((history.split(), history.last()), (None, 11));
}

#[test]
fn an_invalid_node_ends_the_page_before_it_until_a_newer_head_comes() {
    let vectors = vectors();
    let key = vectors.signing_key();
    let mut history = vectors.history();
    history.offer(&vectors.head(2)).unwrap();
    load(&mut history, &vectors.store());

    let bad = Block::dag_pb(Version::V1, "no entry".into()).unwrap();
    let head = key.sign(&vectors.page(), 3, bad.cid()).unwrap();
    assert_eq!(history.offer(head.bytes()), Ok(Offer::Newer));
    assert!(matches!(history.insert(&bad), Err(LiveError::Node(_))));
    assert_eq!(history.missing().count(), 0);
    assert_eq!((history.last(), numbers(&history)), (2, vec![1, 2]));

    let mut fresh = vectors.history();
    fresh.offer(head.bytes()).unwrap();
    assert!(fresh.insert(&bad).is_err());
    assert_eq!(
        (fresh.invalid(), fresh.missing().count(), fresh.is_complete()),
        (Some(3), 0, false)
    );
    assert_eq!(fresh.offer(&vectors.head(9)), Ok(Offer::Newer));
    load(&mut fresh, &vectors.store());
    assert!(fresh.is_complete());

    let unrelated = block(&vectors.entries[0].cid, &vectors.entries[0].hex);
    assert_eq!(fresh.insert(&unrelated), Ok(false));
}
