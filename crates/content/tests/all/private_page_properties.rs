//! Properties that hold for every page.

use proptest::prelude::*;
use watchfire_content::encryption::{
    Decryptor, Entry, Index, Key, Kind, Layout, Output, RecordCipher,
};

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let path = proptest::collection::vec("[a-zé.-]{1,4}", 1..4).prop_map(|names| names.join("/"));
    let kind =
        prop_oneof![3 => Just(Kind::File), 1 => Just(Kind::Directory), 1 => Just(Kind::Symlink)];
    let entry = (path, kind, 0_u64..3000).prop_map(|(path, kind, bytes)| Entry {
        path,
        kind,
        bytes: match kind {
            Kind::File => bytes,
            Kind::Directory => 0,
            Kind::Symlink => bytes + 1,
        },
    });
    proptest::collection::vec(entry, 0..8)
}

/// Returns an index of these entries; `None` if they are not valid together.
fn index(entries: Vec<Entry>) -> Option<Index> {
    let mut index = Index { name: "page".into(), is_directory: true, entries };
    index.sort();
    index.encode().is_ok().then_some(index)
}

fn sealed(key: &Key, index: &Index, record_bytes: u32) -> (Vec<u8>, Vec<u8>) {
    let layout = Layout::with_record_bytes(index.content_bytes().unwrap(), record_bytes).unwrap();
    let records = RecordCipher::for_sealing(key, layout);
    let mut content = index.encode().unwrap();
    let head = content.len();
    let files: u64 = index.entries.iter().map(|entry| entry.bytes).sum();
    content.extend((0..files).map(|at| (at % 251) as u8));
    let files = content[head..].to_vec();
    content.resize(layout.content_bytes() as usize, 0);
    let mut sealed = records.header().to_vec();
    for record in 0..layout.records() {
        let (from, to) = layout.content_range(record);
        sealed.extend(records.seal(record, content[from as usize..to as usize].to_vec()));
    }
    (sealed, files)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_sealed_page_is_decrypted_from_pieces_of_any_length(
        entries in entries(), key in any::<[u8; 32]>(), pieces in proptest::collection::vec(1_usize..5000, 1..8),
        exponent in 12_u32..16,
    ) {
        let key = Key::from_bytes(key);
        let Some(index) = index(entries) else { return Ok(()) };
        let (sealed, files) = sealed(&key, &index, 1 << exponent);
        let mut decryptor = Decryptor::new(&key, sealed.len() as u64);
        let mut outputs = Vec::new();
        let mut rest = &sealed[..];
        for piece in pieces.iter().cycle() {
            let (now, later) = rest.split_at((*piece).min(rest.len()));
            decryptor.take(now, &mut outputs).unwrap();
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        decryptor.finish().unwrap();
        let mut found = Vec::new();
        let mut sizes = vec![0; index.entries.len()];
        for output in &outputs[1..] {
            let Output::Bytes { entry, bytes } = output else { panic!("one index") };
            sizes[*entry] += bytes.len() as u64;
            found.extend_from_slice(bytes);
        }
        prop_assert_eq!(&outputs[0], &Output::Index(index.clone()));
        prop_assert_eq!(sizes, index.entries.iter().map(|entry| entry.bytes).collect::<Vec<_>>());
        prop_assert!(found == files);
    }

    #[test]
    fn changed_content_is_never_returned(
        entries in entries(), at in any::<proptest::sample::Index>(), bit in 0_u8..8,
    ) {
        let key = Key::from_bytes([9; 32]);
        let Some(index) = index(entries) else { return Ok(()) };
        let (mut changed, files) = sealed(&key, &index, 4096);
        let at = at.index(changed.len());
        changed[at] ^= 1 << bit;
        let mut decryptor = Decryptor::new(&key, changed.len() as u64);
        let mut outputs = Vec::new();
        prop_assert!(decryptor.take(&changed, &mut outputs).is_err());
        let mut before = files.iter();
        for output in outputs {
            match output {
                Output::Index(found) => prop_assert_eq!(found, index.clone()),
                Output::Bytes { bytes, .. } => {
                    prop_assert!(bytes.iter().all(|byte| before.next() == Some(byte)));
                }
            }
        }
    }

    #[test]
    fn a_decoded_index_encodes_to_the_same_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(index) = Index::decode(&bytes) {
            prop_assert_eq!(index.encode().unwrap(), bytes);
        }
    }

    #[test]
    fn the_layout_follows_from_the_length_of_the_page(bytes in 0_u64..1 << 40, exponent in 12_u32..=20) {
        let layout = Layout::with_record_bytes(bytes, 1 << exponent);
        let Ok(layout) = layout else { return Ok(()) };
        let records = RecordCipher::for_sealing(&Key::from_bytes([0; 32]), layout);
        let opening = RecordCipher::for_opening(&Key::from_bytes([0; 32]), records.header(), layout.sealed_bytes());
        prop_assert_eq!(*opening.unwrap().layout(), layout);
    }
}
