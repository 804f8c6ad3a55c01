use bytes::Bytes;

use super::murmur3::murmur3_x64_64;
use super::{DirectoryError, Entry, check_name, directory_node, link};
use crate::dag_pb::{Link, Node};
use crate::unixfs::{Kind, UnixFs};
use crate::{Block, Cid, Root, Version};

/// The code of the hash function of shards in the multicodec table: murmur3-x64-64.
const HASH_TYPE: u64 = 0x22;

/// The slots of a shard that is built here; other importers use the same number.
const FANOUT: u64 = 256;

/// The largest number of slots of a shard that is read.
const FANOUT_MAX: u64 = 1024;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    /// The number of slots is not a power of two from 8 to 1024, or differs from the shard above.
    #[error("invalid shard of {found:?} slots")]
    Fanout { found: Option<u64> },
    #[error("a shard uses the unsupported hash function {found:?}")]
    HashType { found: Option<u64> },
    #[error("the bitmap of a shard does not match its links")]
    Bitmap,
    #[error("the link {name:?} of a shard has no slot or is out of order")]
    Slot { name: String },
    /// A name is not in the slot of its hash, so a lookup would not find it.
    #[error("{name:?} is not in the slot of its hash")]
    Misplaced { name: String },
    #[error("a shard below the root is empty")]
    Empty,
    #[error("a shard is deeper than the hash has bits")]
    TooDeep,
}

/// The path to a shard: the bits of the hash that select the slots above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShardPath {
    /// The common first bits of the hashes of all names below, followed by zeros.
    prefix: u64,
    bits: u32,
    /// Slots of the shards above; 0 at the root.
    fanout: u64,
}

#[derive(Debug)]
pub(super) struct Shard {
    shard_path: ShardPath,
    fanout: u64,
    slots: Vec<(u64, Slot)>,
}

#[derive(Debug)]
pub(super) enum Slot {
    Entry(Entry),
    Shard(Cid),
}

impl Shard {
    /// Decodes the shard at `shard_path`.
    pub fn from_node(
        node: Node,
        unixfs: UnixFs,
        shard_path: ShardPath,
    ) -> Result<Self, DirectoryError> {
        let found = unixfs.fanout;
        let fanout = found.filter(|n| n.is_power_of_two() && (8..=FANOUT_MAX).contains(n));
        let fanout = fanout.filter(|n| shard_path.fanout == 0 || shard_path.fanout == *n);
        let fanout = fanout.ok_or(ShardError::Fanout { found })?;
        if unixfs.hash_type != Some(HASH_TYPE) {
            return Err(ShardError::HashType { found: unixfs.hash_type }.into());
        }
        if shard_path.bits + fanout.ilog2() > u64::BITS {
            return Err(ShardError::TooDeep.into());
        }
        if node.links.is_empty() && shard_path.bits > 0 {
            return Err(ShardError::Empty.into());
        }
        let mut shard = Shard { shard_path, fanout, slots: Vec::with_capacity(node.links.len()) };
        for link in node.links {
            let slot = shard.slot(link)?;
            shard.slots.push(slot);
        }
        if bitmap(shard.slots.iter().map(|(at, _)| *at)) != unixfs.data.unwrap_or_default() {
            return Err(ShardError::Bitmap.into());
        }
        Ok(shard)
    }

    fn slot(&self, link: Link) -> Result<(u64, Slot), DirectoryError> {
        let name = link.name.unwrap_or_default();
        let digits = slot_digits(self.fanout);
        let last = self.slots.last().map(|(at, _)| *at);
        let at = name
            .get(..digits)
            .and_then(|text| u64::from_str_radix(text, 16).ok())
            // Only one spelling is valid, so that encoding restores the same bytes.
            .filter(|at| slot_name(*at, self.fanout) == name[..digits])
            .filter(|at| *at < self.fanout && last.is_none_or(|last| last < *at));
        let Some(at) = at else { return Err(ShardError::Slot { name }.into()) };
        if name.len() == digits {
            return Ok((at, Slot::Shard(link.cid)));
        }
        let name = name[digits..].to_owned();
        if let Err(error) = check_name(&name) {
            return Err(DirectoryError::Name { name, error });
        }
        if !self.below(at).contains(murmur3_x64_64(name.as_bytes())) {
            return Err(ShardError::Misplaced { name }.into());
        }
        Ok((at, Slot::Entry(Entry { name, cid: link.cid, dag_bytes: link.tsize })))
    }

    /// Returns the used slots, and the path of each.
    pub fn into_slots(self) -> impl DoubleEndedIterator<Item = (ShardPath, Slot)> {
        let Shard { shard_path, fanout, slots } = self;
        slots.into_iter().map(move |(at, slot)| (shard_path.below(at, fanout), slot))
    }

    /// Returns the content of the slot of a name's hash.
    pub fn into_slot_of(self, name: &str) -> Option<(ShardPath, Slot)> {
        let hash = murmur3_x64_64(name.as_bytes());
        self.into_slots().find(|(shard_path, _)| shard_path.contains(hash))
    }

    fn below(&self, slot: u64) -> ShardPath {
        self.shard_path.below(slot, self.fanout)
    }
}

impl ShardPath {
    fn below(self, slot: u64, fanout: u64) -> ShardPath {
        let bits = self.bits + fanout.ilog2();
        ShardPath { prefix: self.prefix | slot << (u64::BITS - bits), bits, fanout }
    }

    fn contains(self, hash: u64) -> bool {
        (hash ^ self.prefix) >> (u64::BITS - self.bits) == 0
    }
}

/// The number of hexadecimal digits before each name in a shard.
fn slot_digits(fanout: u64) -> usize {
    (fanout.ilog2() as usize).div_ceil(4)
}

fn slot_name(slot: u64, fanout: u64) -> String {
    format!("{slot:0digits$X}", digits = slot_digits(fanout))
}

/// Returns the bitmap of the used slots. Slot 0 is the last bit, and leading zero bytes are
/// omitted.
fn bitmap(slots: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut bytes = [0_u8; FANOUT_MAX as usize / 8];
    for slot in slots {
        bytes[bytes.len() - 1 - slot as usize / 8] |= 1 << (slot % 8);
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes[zeros..].to_vec()
}

pub(super) struct ShardEntry {
    pub hash: u64,
    pub link: Link,
}

impl ShardEntry {
    pub fn new(name: String, cid: Cid, dag_bytes: u64) -> Self {
        ShardEntry { hash: hash_of(&name), link: link(name, cid, dag_bytes) }
    }
}

pub(super) fn hash_of(name: &str) -> u64 {
    murmur3_x64_64(name.as_bytes())
}

/// Emits the shards of a directory, each after the shards that it links to, and returns the root.
///
/// `entries` are sorted by hash and have different hashes that agree in the first `bits`.
pub(super) fn build_shards<E>(
    entries: Vec<ShardEntry>,
    bits: u32,
    version: Version,
    emit: &mut impl FnMut(Block) -> Result<(), E>,
) -> Result<Root, E> {
    let slot_of = |hash: u64| hash << bits >> (u64::BITS - FANOUT.ilog2());
    let mut links = Vec::new();
    let mut slots = Vec::new();
    let mut entries = entries.into_iter().peekable();
    while let Some(first) = entries.next() {
        let slot = slot_of(first.hash);
        let name = slot_name(slot, FANOUT);
        slots.push(slot);
        let mut below = vec![first];
        while let Some(next) = entries.next_if(|next| slot_of(next.hash) == slot) {
            below.push(next);
        }
        if below.len() > 1 {
            let root = build_shards(below, bits + FANOUT.ilog2(), version, emit)?;
            links.push(link(name, root.cid, root.dag_bytes));
        } else {
            let entry = below.swap_remove(0).link;
            links.push(Link { name: entry.name.map(|entry| name + &entry), ..entry });
        }
    }
    let shard = UnixFs {
        data: Some(Bytes::from(bitmap(slots.into_iter()))),
        hash_type: Some(HASH_TYPE),
        fanout: Some(FANOUT),
        ..UnixFs::new(Kind::HamtShard)
    };
    let (block, root) = directory_node(links, shard, version);
    emit(block)?;
    Ok(root)
}
