use crate::{HEADER_BYTES, Index, Key, Layout, PrivateError, Records};

/// What comes out of a page, in this order: the index, then the bytes of the entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// What is inside.
    Index(Index),
    /// The next bytes of an entry; never empty.
    Bytes {
        /// Which, counted from 0.
        entry: usize,
        /// Some of its bytes.
        bytes: Vec<u8>,
    },
}

/// Opens a page whose ciphertext comes in its order.
///
/// Holds one record, and the index until it is whole. What comes out was authenticated; only
/// [`Unsealing::finish`] says that nothing is missing.
#[derive(Debug)]
pub struct Unsealing {
    key: Key,
    sealed_bytes: u64,
    records: Option<Records>,
    /// Ciphertext of the record that is coming, or the header before it.
    coming: Vec<u8>,
    record: u64,
    /// Content that is not understood yet: the index until it is whole.
    head: Vec<u8>,
    /// The sizes of the entries that are not over, the last one first; `None` before the index.
    ahead: Option<Vec<(usize, u64)>>,
}

impl Unsealing {
    /// Of a whole of so many bytes.
    pub fn new(key: &Key, sealed_bytes: u64) -> Self {
        Unsealing {
            key: key.clone(),
            sealed_bytes,
            records: None,
            coming: Vec::new(),
            record: 0,
            head: Vec::new(),
            ahead: None,
        }
    }

    /// The next bytes of ciphertext, in pieces of any length. What can be opened by now is added
    /// to `outputs`.
    pub fn take(
        &mut self,
        mut sealed: &[u8],
        outputs: &mut Vec<Output>,
    ) -> Result<(), PrivateError> {
        while !sealed.is_empty() {
            let needed = match &self.records {
                None => HEADER_BYTES,
                Some(records) if self.record < records.layout().records() => {
                    let (from, to) = records.layout().sealed_of(self.record);
                    usize::try_from(to - from).expect("a record is short")
                }
                Some(_) => return Err(PrivateError::Length { sealed_bytes: self.sealed_bytes }),
            };
            let taken = sealed.len().min(needed - self.coming.len());
            self.coming.extend_from_slice(&sealed[..taken]);
            sealed = &sealed[taken..];
            if self.coming.len() < needed {
                break;
            }
            let whole = std::mem::take(&mut self.coming);
            match &self.records {
                None => {
                    let header = whole.as_slice().try_into().expect("it was counted");
                    self.records = Some(Records::opening(&self.key, header, self.sealed_bytes)?);
                }
                Some(records) => {
                    let content = records.open(self.record, whole)?;
                    self.record += 1;
                    self.opened(content, outputs)?;
                }
            }
        }
        Ok(())
    }

    /// How the page lies, once its header was read.
    pub fn layout(&self) -> Option<&Layout> {
        self.records.as_ref().map(Records::layout)
    }

    /// The record that is opened next.
    pub const fn record(&self) -> u64 {
        self.record
    }

    /// Passes over the records before this one, for whoever wants a part of the page: the next
    /// bytes given are those of this record's ciphertext. Nothing happens before the index is
    /// here, nor when the record was opened already.
    pub fn skip_to(&mut self, record: u64) {
        let (Some(records), Some(ahead)) = (&self.records, &mut self.ahead) else { return };
        if record <= self.record || record >= records.layout().records() {
            return;
        }
        let layout = records.layout();
        let mut passed = layout.content_of(record).0 - layout.content_of(self.record).0;
        while let Some((_, left)) = ahead.last_mut() {
            let bytes = passed.min(*left);
            *left -= bytes;
            passed -= bytes;
            if *left > 0 {
                break;
            }
            ahead.pop();
        }
        self.coming.clear();
        self.record = record;
    }

    /// Nothing more comes; an error when something should.
    pub fn finish(self) -> Result<(), PrivateError> {
        let records = self.records.as_ref().map(|records| records.layout().records());
        if self.coming.is_empty() && records == Some(self.record) && self.ahead.is_some() {
            return Ok(());
        }
        // Too short for a header is too short to be one.
        if records.is_none() && !crate::is_sealed(&self.coming) {
            return Err(PrivateError::NotPrivate);
        }
        Err(PrivateError::Length { sealed_bytes: self.sealed_bytes })
    }

    fn opened(&mut self, content: Vec<u8>, outputs: &mut Vec<Output>) -> Result<(), PrivateError> {
        if self.ahead.is_some() {
            return self.give(&content, outputs);
        }
        self.head.extend_from_slice(&content);
        let Some(bytes) = Index::encoded_bytes(&self.head)?.filter(|len| *len <= self.head.len())
        else {
            let is_last =
                self.records.as_ref().map(|it| it.layout().records()) == Some(self.record);
            return if is_last { Err(crate::IndexError::Cut.into()) } else { Ok(()) };
        };
        let head = std::mem::take(&mut self.head);
        let index = Index::decode(&head[..bytes])?;
        let records = self.records.as_ref().expect("a record was opened");
        // What is padding follows from what is not, so that nothing can hide in it.
        if crate::padded(index.content_bytes()?) != records.layout().content_bytes() {
            return Err(PrivateError::Length { sealed_bytes: self.sealed_bytes });
        }
        let sizes = index.entries.iter().map(|entry| entry.bytes);
        let ahead: Vec<_> = sizes.enumerate().filter(|(_, bytes)| *bytes > 0).collect();
        self.ahead = Some(ahead.into_iter().rev().collect());
        outputs.push(Output::Index(index));
        self.give(&head[bytes..], outputs)
    }

    fn give(&mut self, mut content: &[u8], outputs: &mut Vec<Output>) -> Result<(), PrivateError> {
        let ahead = self.ahead.as_mut().expect("the index came first");
        while let (Some((entry, left)), false) = (ahead.last_mut(), content.is_empty()) {
            let len = usize::try_from(*left).unwrap_or(usize::MAX).min(content.len());
            let (bytes, rest) = content.split_at(len);
            outputs.push(Output::Bytes { entry: *entry, bytes: bytes.to_vec() });
            content = rest;
            *left -= len as u64;
            if *left == 0 {
                ahead.pop();
            }
        }
        if content.iter().any(|byte| *byte != 0) {
            return Err(PrivateError::Changed { record: self.record - 1 });
        }
        Ok(())
    }
}
