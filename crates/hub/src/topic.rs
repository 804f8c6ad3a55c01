use compact_str::CompactString;
use watchfire_types::heap_bytes;

use crate::tables::should_shrink;

#[derive(Debug, Default)]
pub(crate) struct Topic {
    /// Most names are short enough to be stored inline.
    pub name: CompactString,
    pub members: Members,
}

impl Topic {
    /// Whether the slot has a topic.
    pub fn is_occupied(&self) -> bool {
        !matches!(self.members, Members::Vacant)
    }

    /// The memory that it owns.
    pub fn memory_bytes(&self) -> usize {
        let name = if self.name.is_heap_allocated() { self.name.capacity() } else { 0 };
        heap_bytes(name) + self.members.memory_bytes()
    }
}

const _: () = assert!(size_of::<Topic>() == 40, "stored once per topic");

const NO_TOPIC: &str = "a vacant slot has no members";

/// The subscriptions to one topic. Many topics have only one, such as a user's own topic.
#[derive(Debug, Default)]
pub(crate) enum Members {
    One(u32),
    // Boxed, so that a topic with one member has 8 bytes for the absent list.
    #[allow(clippy::box_collection)]
    Many(Box<Vec<u32>>),
    #[default]
    Vacant,
}

impl Members {
    pub fn as_slice(&self) -> &[u32] {
        match self {
            Members::One(member) => std::slice::from_ref(member),
            Members::Many(list) => list,
            Members::Vacant => &[],
        }
    }

    /// The memory that the list owns.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Members::Many(list) => {
                heap_bytes(size_of::<Vec<u32>>()) + heap_bytes(list.capacity() * size_of::<u32>())
            }
            Members::One(_) | Members::Vacant => 0,
        }
    }

    pub fn set(&mut self, position: u32, member: u32) {
        match self {
            Members::One(only) => *only = member,
            Members::Many(list) => list[position as usize] = member,
            Members::Vacant => unreachable!("{NO_TOPIC}"),
        }
    }

    pub fn push(&mut self, member: u32) {
        match self {
            Members::One(first) => *self = Members::Many(Box::new(vec![*first, member])),
            Members::Many(list) => list.push(member),
            Members::Vacant => unreachable!("{NO_TOPIC}"),
        }
    }

    /// Removes the last member; there must be at least two.
    pub fn pop(&mut self) {
        let Members::Many(list) = self else {
            unreachable!("a topic's only member is removed with the topic")
        };
        list.pop();
        match list[..] {
            [only] => *self = Members::One(only),
            _ if should_shrink(list.len(), list.capacity()) => list.shrink_to(list.len() * 2),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_has_become_much_shorter_frees_memory() {
        let mut members = Members::One(0);
        (1..10_000).for_each(|member| members.push(member));
        for left in (1..10_000).rev() {
            members.pop();
            assert_eq!(members.as_slice().len(), left);
            if let Members::Many(list) = &members {
                assert!(list.capacity() <= 4 * left + 16, "{left} in {}", list.capacity());
            }
        }
        assert!(matches!(members, Members::One(0)));
    }
}
