use super::{HEADER_BYTES, Index, Key, Layout, PrivateError, RecordCipher};

/// The output of a [`Decryptor`]: first the index, then the bytes of the entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Index(Index),
    /// The next bytes of an entry; never empty.
    Bytes {
        /// The number of the entry, from 0.
        entry: usize,
        bytes: Vec<u8>,
    },
}

/// Decrypts a page from its ciphertext in order.
///
/// It holds one record, and the index until that is complete. All outputs are authenticated, but
/// only [`Decryptor::finish`] checks that the page is complete.
#[derive(Debug)]
pub struct Decryptor {
    key: Key,
    sealed_bytes: u64,
    records: Option<RecordCipher>,
    /// The ciphertext of the current record or header so far.
    pending: Vec<u8>,
    record: u64,
    /// The content of the index so far.
    head: Vec<u8>,
    /// The entries and lengths that are still to come, the last one first; `None` before the index.
    remaining: Option<Vec<(usize, u64)>>,
}

impl Decryptor {
    pub fn new(key: &Key, sealed_bytes: u64) -> Self {
        Decryptor {
            key: key.clone(),
            sealed_bytes,
            records: None,
            pending: Vec::new(),
            record: 0,
            head: Vec::new(),
            remaining: None,
        }
    }

    /// Processes the next bytes of the ciphertext, in pieces of any length, and adds decrypted
    /// content to `outputs`.
    pub fn take(
        &mut self,
        mut sealed: &[u8],
        outputs: &mut Vec<Output>,
    ) -> Result<(), PrivateError> {
        while !sealed.is_empty() {
            let needed = match &self.records {
                None => HEADER_BYTES,
                Some(records) if self.record < records.layout().records() => {
                    let (from, to) = records.layout().sealed_range(self.record);
                    usize::try_from(to - from).expect("records are at most 1 MiB")
                }
                Some(_) => return Err(PrivateError::Length { sealed_bytes: self.sealed_bytes }),
            };
            let taken = sealed.len().min(needed - self.pending.len());
            self.pending.extend_from_slice(&sealed[..taken]);
            sealed = &sealed[taken..];
            if self.pending.len() < needed {
                break;
            }
            let whole = std::mem::take(&mut self.pending);
            match &self.records {
                None => {
                    let header = whole.as_slice().try_into().expect("the length matches");
                    self.records =
                        Some(RecordCipher::for_opening(&self.key, header, self.sealed_bytes)?);
                }
                Some(records) => {
                    let content = records.open(self.record, whole)?;
                    self.record += 1;
                    self.handle_content(content, outputs)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the layout of the page; `None` before the header.
    pub fn layout(&self) -> Option<&Layout> {
        self.records.as_ref().map(RecordCipher::layout)
    }

    /// Returns the number of the next record.
    pub const fn record(&self) -> u64 {
        self.record
    }

    /// Skips to a record, to read only a part of the page. The next bytes must be the ciphertext of
    /// this record. Has no effect before the index is complete, or if the record was decrypted.
    pub fn skip_to(&mut self, record: u64) {
        let (Some(records), Some(remaining)) = (&self.records, &mut self.remaining) else { return };
        if record <= self.record || record >= records.layout().records() {
            return;
        }
        let layout = records.layout();
        let mut skipped = layout.content_range(record).0 - layout.content_range(self.record).0;
        while let Some((_, left)) = remaining.last_mut() {
            let bytes = skipped.min(*left);
            *left -= bytes;
            skipped -= bytes;
            if *left > 0 {
                break;
            }
            remaining.pop();
        }
        self.pending.clear();
        self.record = record;
    }

    /// Ends the page. Fails if content is missing.
    pub fn finish(self) -> Result<(), PrivateError> {
        let records = self.records.as_ref().map(|records| records.layout().records());
        if self.pending.is_empty() && records == Some(self.record) && self.remaining.is_some() {
            return Ok(());
        }
        // Without a complete header, the bytes may not be a private page.
        if records.is_none() && !super::is_sealed(&self.pending) {
            return Err(PrivateError::NotPrivate);
        }
        Err(PrivateError::Length { sealed_bytes: self.sealed_bytes })
    }

    fn handle_content(
        &mut self,
        content: Vec<u8>,
        outputs: &mut Vec<Output>,
    ) -> Result<(), PrivateError> {
        if self.remaining.is_some() {
            return self.emit(&content, outputs);
        }
        self.head.extend_from_slice(&content);
        let Some(bytes) = Index::encoded_bytes(&self.head)?.filter(|len| *len <= self.head.len())
        else {
            let is_last =
                self.records.as_ref().map(|it| it.layout().records()) == Some(self.record);
            return if is_last { Err(super::IndexError::Truncated.into()) } else { Ok(()) };
        };
        let head = std::mem::take(&mut self.head);
        let index = Index::decode(&head[..bytes])?;
        let records = self.records.as_ref().expect("a record was decrypted");
        // The padding must have exactly the expected length, so that it can hide no data.
        if super::padded(index.content_bytes()?) != records.layout().content_bytes() {
            return Err(PrivateError::Length { sealed_bytes: self.sealed_bytes });
        }
        let sizes = index.entries.iter().map(|entry| entry.bytes);
        let remaining: Vec<_> = sizes.enumerate().filter(|(_, bytes)| *bytes > 0).collect();
        self.remaining = Some(remaining.into_iter().rev().collect());
        outputs.push(Output::Index(index));
        self.emit(&head[bytes..], outputs)
    }

    fn emit(&mut self, mut content: &[u8], outputs: &mut Vec<Output>) -> Result<(), PrivateError> {
        let remaining = self.remaining.as_mut().expect("the index came first");
        while let (Some((entry, left)), false) = (remaining.last_mut(), content.is_empty()) {
            let len = usize::try_from(*left).unwrap_or(usize::MAX).min(content.len());
            let (bytes, rest) = content.split_at(len);
            outputs.push(Output::Bytes { entry: *entry, bytes: bytes.to_vec() });
            content = rest;
            *left -= len as u64;
            if *left == 0 {
                remaining.pop();
            }
        }
        if content.iter().any(|byte| *byte != 0) {
            return Err(PrivateError::Changed { record: self.record - 1 });
        }
        Ok(())
    }
}
