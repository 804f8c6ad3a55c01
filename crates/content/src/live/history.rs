use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use super::{Beginning, Entry, Form, Head, LiveError, PublisherKey, linked_numbers};
use crate::{Block, Cid};

/// The entries of a live page as one peer knows them, and the head that vouches for them.
///
/// A history does no I/O. Its owner offers it heads from peers, fetches the blocks that are
/// [`missing`](History::missing), and hands them over with [`insert`](History::insert).
#[derive(Clone, Debug)]
pub struct History {
    page: Cid,
    beginning: Beginning,
    branch: Branch,
    /// Entries above the head, until a link to the head's entry proves that they continue it.
    next: Option<Branch>,
    /// A head that is newer than that of `next`.
    newest: Option<Head>,
    split: Option<Split>,
}

/// An entry that a publisher appends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// In milliseconds since 1970.
    pub time_ms: u64,
    pub form: Form,
    /// The name of the file or directory; empty for a text.
    pub name: String,
    /// The root of the content, and the size of its blocks.
    pub content: Cid,
    pub content_bytes: u64,
}

/// The effect of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// The head is the newest. Peers should get it.
    Newer,
    /// The head is known.
    Same,
    /// A newer head is known. The sender should get it.
    Older,
    /// The page is split, by this head or by an earlier one. Peers should get the two heads that prove it.
    Split,
}

/// Two different nodes have the same number: the key of the page was used in two places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The lowest number that is known to have two nodes. Entries below it are undisputed.
    pub number: u32,
    /// The head of the other branch.
    pub other_head: Head,
    /// The other node with this number, while its links may lead to a lower number.
    other: Option<Cid>,
}

/// Nodes that one head vouches for, by number.
#[derive(Clone, Debug, Default)]
struct Branch {
    head: Option<Head>,
    nodes: BTreeMap<u32, Node>,
    /// The numbers of the missing nodes, so that no call takes longer with more entries.
    missing: BTreeSet<u32>,
    /// The lowest number whose node is invalid.
    invalid: Option<u32>,
}

#[derive(Clone, Debug)]
struct Node {
    cid: Cid,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Missing,
    Here(Entry),
    Invalid,
}

impl History {
    /// Creates the history of a page without entries.
    pub const fn new(page: Cid, beginning: Beginning) -> Self {
        let branch =
            Branch { head: None, nodes: BTreeMap::new(), missing: BTreeSet::new(), invalid: None };
        History { page, beginning, branch, next: None, newest: None, split: None }
    }

    pub const fn beginning(&self) -> &Beginning {
        &self.beginning
    }

    /// Returns the number of the last entry that is known to continue the page; 0 if there is none.
    pub fn last(&self) -> u32 {
        self.branch.last()
    }

    pub const fn split(&self) -> Option<&Split> {
        self.split.as_ref()
    }

    /// Returns the heads that peers should have: the newest, or the two that prove a split.
    pub fn heads(&self) -> impl Iterator<Item = &Head> {
        let next = self.next.as_ref().and_then(|next| next.head.as_ref());
        let newest = self.newest.as_ref().or(next).or(self.branch.head.as_ref());
        let (one, other) = match &self.split {
            Some(split) => (self.branch.head.as_ref(), Some(&split.other_head)),
            None => (newest, None),
        };
        one.into_iter().chain(other)
    }

    /// Returns the entries that are here, by number.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries_from(0)
    }

    /// Returns the entries that are here and have at least this number.
    pub fn entries_from(&self, number: u32) -> impl DoubleEndedIterator<Item = &Entry> {
        self.branch.nodes.range(number..).filter_map(|(_, node)| match &node.state {
            State::Here(entry) => Some(entry),
            State::Missing | State::Invalid => None,
        })
    }

    /// Returns the entry with this number, if it is here.
    pub fn entry(&self, number: u32) -> Option<&Entry> {
        match &self.branch.nodes.get(&number)?.state {
            State::Here(entry) => Some(entry),
            State::Missing | State::Invalid => None,
        }
    }

    /// Returns the CIDs of the nodes that are known and not here, those of the newest entries first.
    pub fn missing(&self) -> impl Iterator<Item = &Cid> {
        let branches = self.next.iter().chain([&self.branch]);
        let missing = branches
            .flat_map(|branch| branch.missing.iter().rev().map(|number| &branch.nodes[number].cid));
        missing.chain(self.split.iter().filter_map(|split| split.other.as_ref()))
    }

    /// Returns the lowest number whose node is invalid. The publisher's program has made it.
    pub fn invalid(&self) -> Option<u32> {
        self.branch.invalid
    }

    /// Whether all entries up to the newest head are here.
    pub fn is_complete(&self) -> bool {
        let Branch { missing, invalid, .. } = &self.branch;
        self.next.is_none() && missing.is_empty() && invalid.is_none()
    }

    /// Takes a head that a peer has sent.
    pub fn offer(&mut self, bytes: &[u8]) -> Result<Offer, LiveError> {
        if self.heads().any(|head| head.bytes() == bytes) {
            return Ok(Offer::Same);
        }
        if self.split.is_none() && self.knows_entry_of(bytes) {
            return Ok(Offer::Older);
        }
        let head = Head::verify(bytes, &self.page, &self.beginning.key)?;
        if self.split.is_some() {
            return Ok(Offer::Split);
        }
        let newest = self.heads().next().map_or(0, |head| head.number);
        if self.branch.differs(head.number, &head.entry) {
            self.split_at(head.number, head.entry.clone(), head);
            return Ok(Offer::Split);
        }
        Ok(match head.number.cmp(&newest) {
            Ordering::Less => Offer::Older,
            // If its entry is another one than that of the newest head, their links will differ.
            Ordering::Equal => Offer::Same,
            Ordering::Greater => {
                self.follow(head);
                Offer::Newer
            }
        })
    }

    /// Takes the block of a missing node. Returns whether it was missing.
    ///
    /// After an error the node is not missing any more.
    pub fn insert(&mut self, block: &Block) -> Result<bool, LiveError> {
        let cid = block.cid();
        let decoded = Entry::decode(block.bytes());
        if self.split.as_ref().is_some_and(|split| split.other.as_ref() == Some(cid)) {
            self.narrow_split(decoded.as_ref().ok());
            return Ok(true);
        }
        let result = decoded.and_then(|entry| {
            let number = entry.number;
            if self.branch.awaits(number, cid) {
                self.check(&entry)?;
                self.branch.insert(entry, 0)?;
            } else if self.next.as_ref().is_some_and(|next| next.awaits(number, cid)) {
                self.check(&entry)?;
                self.insert_next(entry)?;
            } else if self.missing().any(|missing| missing == cid) {
                return Err(LiveError::Number { number });
            } else {
                return Ok(false);
            }
            Ok(true)
        });
        if result.is_err() && !self.forget(cid) {
            return Ok(false);
        }
        result
    }

    /// Appends an entry as the publisher, who has all entries. Returns its block and the new head.
    pub fn append(
        &mut self,
        key: &PublisherKey,
        new: NewEntry,
    ) -> Result<(Block, Head), LiveError> {
        let number = self.last() + 1;
        let cid = |number: u32| match number {
            0 => Some(self.page.clone()),
            _ => self.branch.nodes.get(&number).map(|node| node.cid.clone()),
        };
        let earlier = linked_numbers(number).map(cid).collect::<Option<Vec<_>>>();
        let earlier = earlier.ok_or(LiveError::Links { number })?;
        let NewEntry { time_ms, form, name, content, content_bytes } = new;
        let entry = Entry { number, time_ms, form, name, content, content_bytes, earlier };
        let block = entry.block()?;
        let head = key.sign(&self.page, number, block.cid())?;
        let node = Node { cid: block.cid().clone(), state: State::Here(entry) };
        self.branch.nodes.insert(number, node);
        self.branch.head = Some(head.clone());
        Ok((block, head))
    }

    /// Whether a head names an entry below the last that is known under its number. Such a head tells nothing new, so it is not
    /// verified: a peer could repeat it without end.
    fn knows_entry_of(&self, head: &[u8]) -> bool {
        let entry = Head::unverified_entry(head, &self.page);
        entry.is_some_and(|(number, digest)| {
            let known = self.branch.nodes.get(&number);
            number < self.last() && known.is_some_and(|node| node.cid.hash().digest() == digest)
        })
    }

    /// Begins to load the entries up to a newer head.
    fn follow(&mut self, head: Head) {
        if self.branch.is_unseen() {
            self.branch = Branch::of(head);
        } else if self.next.as_ref().is_none_or(Branch::is_unseen) {
            self.next = Some(Branch::of(head));
        } else {
            self.newest = Some(head);
        }
    }

    /// A link to node 0 must be to the beginning.
    fn check(&self, entry: &Entry) -> Result<(), LiveError> {
        let has_page = entry.links().all(|(number, cid)| number > 0 || *cid == self.page);
        if has_page { Ok(()) } else { Err(LiveError::Links { number: entry.number }) }
    }

    /// Takes an entry above the head. Its links may prove that its branch continues the page, or that
    /// the page is split.
    fn insert_next(&mut self, entry: Entry) -> Result<(), LiveError> {
        let Some(mut next) = self.next.take() else { return Ok(()) };
        let last = self.last();
        if let Some((number, cid)) = self.branch.lowest_difference(&entry)
            && let Some(head) = next.head
        {
            self.split_at(number, cid, head);
            return Ok(());
        }
        let is_continued = entry.links().any(|(number, _)| number == last);
        next.insert(entry, last)?;
        if !is_continued {
            self.next = Some(next);
            return Ok(());
        }
        self.branch.nodes.extend(next.nodes);
        self.branch.missing.extend(next.missing);
        self.branch.head = next.head;
        if let Some(newest) = self.newest.take() {
            self.follow(newest);
        }
        Ok(())
    }

    fn split_at(&mut self, number: u32, other: Cid, other_head: Head) {
        (self.next, self.newest) = (None, None);
        self.split = Some(Split { number, other_head, other: Some(other) });
    }

    /// The links of the other branch's node may lead to a lower number at which the branches differ.
    fn narrow_split(&mut self, other: Option<&Entry>) {
        let Some(split) = &mut self.split else { return };
        let other = other.filter(|other| other.number == split.number);
        let lower = other.and_then(|other| self.branch.lowest_difference(other));
        split.other = lower.map(|(number, cid)| {
            split.number = number;
            cid
        });
    }

    /// Stops waiting for a node that is invalid. Returns whether it was awaited.
    fn forget(&mut self, cid: &Cid) -> bool {
        let Branch { nodes, missing, invalid, .. } = &mut self.branch;
        if let Some(number) = missing.extract_if(.., |number| nodes[number].cid == *cid).next() {
            nodes.entry(number).and_modify(|node| node.state = State::Invalid);
            *invalid = Some(invalid.map_or(number, |before| before.min(number)));
            return true;
        }
        let is_next = |next: &Branch| next.nodes.values().any(|node| node.cid == *cid);
        if !self.next.as_ref().is_some_and(is_next) {
            return false;
        }
        self.next = None;
        if let Some(newest) = self.newest.take() {
            self.follow(newest);
        }
        true
    }
}

impl Branch {
    fn of(head: Head) -> Self {
        let node = Node { cid: head.entry.clone(), state: State::Missing };
        let (nodes, missing) = ([(head.number, node)].into(), [head.number].into());
        Branch { head: Some(head), nodes, missing, invalid: None }
    }

    fn last(&self) -> u32 {
        self.head.as_ref().map_or(0, |head| head.number)
    }

    fn is_unseen(&self) -> bool {
        self.nodes.values().all(|node| !matches!(node.state, State::Here(_)))
    }

    fn awaits(&self, number: u32, cid: &Cid) -> bool {
        self.missing.contains(&number) && self.nodes[&number].cid == *cid
    }

    /// Whether another node is known for this number.
    fn differs(&self, number: u32, cid: &Cid) -> bool {
        self.nodes.get(&number).is_some_and(|node| node.cid != *cid)
    }

    /// Returns the lowest number that the entry links to and for which another node is known.
    fn lowest_difference(&self, entry: &Entry) -> Option<(u32, Cid)> {
        let differing = entry.links().filter(|(number, cid)| self.differs(*number, cid));
        differing.last().map(|(number, cid)| (number, cid.clone()))
    }

    /// Takes an entry. The nodes that it links to become known, down to the number after `floor`.
    fn insert(&mut self, entry: Entry, floor: u32) -> Result<(), LiveError> {
        let number = entry.number;
        if entry.links().any(|(number, cid)| number > floor && self.differs(number, cid)) {
            return Err(LiveError::Links { number });
        }
        for (number, cid) in entry.links().filter(|(number, _)| *number > floor) {
            self.nodes.entry(number).or_insert_with(|| {
                self.missing.insert(number);
                Node { cid: cid.clone(), state: State::Missing }
            });
        }
        if let Some(node) = self.nodes.get_mut(&number) {
            node.state = State::Here(entry);
            self.missing.remove(&number);
        }
        Ok(())
    }
}
