use watchfire_content::encryption::{
    Decryptor, Index, Key, Layout, Output, PrivateError, RecordCipher,
};

/// An index that decodes encodes to the same bytes, and its paths stay below the page.
pub fn private_index(bytes: &[u8]) {
    let Ok(index) = Index::decode(bytes) else { return };
    assert_eq!(index.encode().as_deref(), Ok(bytes));
    for entry in &index.entries {
        let is_below = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
        assert!(!index.is_directory || entry.path.split('/').all(is_below), "{:?}", entry.path);
    }
}

/// A page of any bytes, sealed or not: each entry yields as many bytes as the index declares.
pub fn private_page(bytes: &[u8]) {
    let key = Key::from_bytes([7; 32]);
    let _ = open(&key, bytes);
    // The same bytes as content, sealed with the key.
    let layout = Layout::with_record_bytes(bytes.len() as u64, 4096).expect("the input is short");
    let records = RecordCipher::for_sealing(&key, layout);
    let mut content = bytes.to_vec();
    content.resize(layout.content_bytes() as usize, 0);
    let mut sealed = records.header().to_vec();
    for record in 0..layout.records() {
        let (from, to) = layout.content_range(record);
        sealed.extend(records.seal(record, content[from as usize..to as usize].to_vec()));
    }
    let Ok(outputs) = open(&key, &sealed) else { return };
    let mut outputs = outputs.into_iter();
    let Some(Output::Index(index)) = outputs.next() else { panic!("the index comes first") };
    let mut remaining: Vec<u64> = index.entries.iter().map(|entry| entry.bytes).collect();
    for output in outputs {
        let Output::Bytes { entry, bytes } = output else { panic!("a second index") };
        remaining[entry] -= bytes.len() as u64;
    }
    assert!(remaining.iter().all(|bytes| *bytes == 0), "an entry lacks bytes");
}

fn open(key: &Key, sealed: &[u8]) -> Result<Vec<Output>, PrivateError> {
    let mut decryptor = Decryptor::new(key, sealed.len() as u64);
    let mut outputs = Vec::new();
    sealed.chunks(1000).try_for_each(|piece| decryptor.take(piece, &mut outputs))?;
    decryptor.finish()?;
    Ok(outputs)
}
