use bytes::Bytes;

use super::murmur3::murmur3_x64_64;
use super::{DirectoryError, Entry, check_name, directory_node, link};
use crate::dag_pb::{Link, Node};
use crate::unixfs::{Kind, UnixFs};
use crate::{Block, Cid, Root, Version};

/// The hash function of shards in the multicodec table: murmur3-x64-64.
const HASH_TYPE: u64 = 0x22;

/// Slots of a shard that is built here, as everywhere.
const FANOUT: u64 = 256;

/// Most slots of a shard that is read.
const FANOUT_MAX: u64 = 1024;

/// Why a node is not a part of a directory that we can read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    /// The number of slots is not a power of two from 8 to 1024, or not that of the shard above.
    #[error("a shard of {found:?} slots")]
    Fanout {
        /// What the shard says.
        found: Option<u64>,
    },
    /// Names were spread by another hash function than murmur3-x64-64.
    #[error("a shard of hash function {found:?}")]
    HashType {
        /// What the shard says.
        found: Option<u64>,
    },
    /// The bitmap has not one bit for each link, at its slot.
    #[error("the bitmap of a shard does not fit its links")]
    Bitmap,
    /// A link's name does not start with the number of a slot, or not of a later one than the link
    /// before.
    #[error("{name:?} in a shard does not say its slot, or is out of order")]
    Slot {
        /// The name.
        name: String,
    },
    /// A name is not where its hash would have it, so that it could be listed and never found.
    #[error("{name:?} is in a shard where its hash does not lead")]
    Misplaced {
        /// The name.
        name: String,
    },
    /// A shard below another has nothing in it.
    #[error("a shard below another is empty")]
    Empty,
    /// A shard lies deeper than hashes have bits.
    #[error("a shard lies deeper than hashes lead")]
    TooDeep,
}

/// The hash of a name, and how much of it led here: the bits of the slots above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trail {
    /// The first bits of the hashes of all that is here, followed by zeros.
    path: u64,
    bits: u32,
    /// Slots of the shards above; 0 at the root.
    fanout: u64,
}

/// One node of a directory that is spread over many.
#[derive(Debug)]
pub(super) struct Shard {
    trail: Trail,
    fanout: u64,
    slots: Vec<(u64, Slot)>,
}

#[derive(Debug)]
pub(super) enum Slot {
    Entry(Entry),
    Shard(Cid),
}

impl Shard {
    /// Reads the node of a shard that `trail` led to.
    pub fn from_node(node: Node, unixfs: UnixFs, trail: Trail) -> Result<Self, DirectoryError> {
        let found = unixfs.fanout;
        let fanout = found.filter(|n| n.is_power_of_two() && (8..=FANOUT_MAX).contains(n));
        let fanout = fanout.filter(|n| trail.fanout == 0 || trail.fanout == *n);
        let fanout = fanout.ok_or(ShardError::Fanout { found })?;
        if unixfs.hash_type != Some(HASH_TYPE) {
            return Err(ShardError::HashType { found: unixfs.hash_type }.into());
        }
        if trail.bits + fanout.ilog2() > u64::BITS {
            return Err(ShardError::TooDeep.into());
        }
        if node.links.is_empty() && trail.bits > 0 {
            return Err(ShardError::Empty.into());
        }
        let mut shard = Shard { trail, fanout, slots: Vec::with_capacity(node.links.len()) };
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
            // One spelling only, so that what is read would be written the same.
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
        if !self.below(at).leads_to(murmur3_x64_64(name.as_bytes())) {
            return Err(ShardError::Misplaced { name }.into());
        }
        Ok((at, Slot::Entry(Entry { name, cid: link.cid, dag_bytes: link.tsize })))
    }

    /// All slots that something is in, and how what is below a shard's is reached.
    pub fn into_slots(self) -> impl DoubleEndedIterator<Item = (Trail, Slot)> {
        let Shard { trail, fanout, slots } = self;
        slots.into_iter().map(move |(at, slot)| (trail.below(at, fanout), slot))
    }

    /// What is in the slot that a name's hash leads to.
    pub fn into_slot_of(self, name: &str) -> Option<(Trail, Slot)> {
        let hash = murmur3_x64_64(name.as_bytes());
        self.into_slots().find(|(trail, _)| trail.leads_to(hash))
    }

    fn below(&self, slot: u64) -> Trail {
        self.trail.below(slot, self.fanout)
    }
}

impl Trail {
    fn below(self, slot: u64, fanout: u64) -> Trail {
        let bits = self.bits + fanout.ilog2();
        Trail { path: self.path | slot << (u64::BITS - bits), bits, fanout }
    }

    fn leads_to(self, hash: u64) -> bool {
        (hash ^ self.path) >> (u64::BITS - self.bits) == 0
    }
}

/// Hexadecimal digits in front of each name in a shard.
fn slot_digits(fanout: u64) -> usize {
    (fanout.ilog2() as usize).div_ceil(4)
}

fn slot_name(slot: u64, fanout: u64) -> String {
    format!("{slot:0digits$X}", digits = slot_digits(fanout))
}

/// One bit for each slot that something is in, slot 0 the last bit, without zeros in front.
fn bitmap(slots: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut bytes = [0_u8; FANOUT_MAX as usize / 8];
    for slot in slots {
        bytes[bytes.len() - 1 - slot as usize / 8] |= 1 << (slot % 8);
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes[zeros..].to_vec()
}

/// An entry of a directory that is being spread.
pub(super) struct Spread {
    pub hash: u64,
    pub link: Link,
}

impl Spread {
    pub fn new(name: String, cid: Cid, dag_bytes: u64) -> Self {
        Spread { hash: hash_of(&name), link: link(name, cid, dag_bytes) }
    }
}

pub(super) fn hash_of(name: &str) -> u64 {
    murmur3_x64_64(name.as_bytes())
}

/// Emits the shards of a directory, each after all that it links to, and says what they are.
///
/// `entries` are in the order of their hashes, and no two hashes are the same. They agree in the
/// first `bits`.
pub(super) fn build_shards<E>(
    entries: Vec<Spread>,
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
