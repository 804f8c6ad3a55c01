//! The states of the clients that joined a channel, stored together instead of in one box each.

use std::any::Any;
use std::num::NonZeroU32;

use watchfire_types::Slab;

/// The [`States`] of some channel.
pub type AnyStates = Box<dyn Any + Send>;

/// The state of one joined client, among the states of its channel on its shard.
#[derive(Debug, PartialEq, Eq)]
pub struct StateId(NonZeroU32);

const _: () = assert!(size_of::<Option<StateId>>() == 4, "stored once for each joined channel");

/// The states of one channel's clients on one shard.
pub(super) struct States<S> {
    entries: Slab<Option<S>>,
    /// States of a type of size zero. All are equal, and a list of them takes no memory.
    zero_sized: Vec<S>,
}

impl<S> States<S> {
    const IS_ZERO_SIZED: bool = size_of::<S>() == 0;

    pub fn insert(&mut self, state: S) -> StateId {
        if Self::IS_ZERO_SIZED {
            self.zero_sized.push(state);
            return StateId::of_index(0);
        }
        StateId::of_index(self.entries.insert(Some(state)))
    }

    pub fn memory_bytes(&self) -> usize {
        self.entries.memory_bytes()
    }

    pub fn get_mut(&mut self, id: &StateId) -> &mut S {
        let state = match Self::IS_ZERO_SIZED {
            true => self.zero_sized.last_mut(),
            false => self.entries[id.index()].as_mut(),
        };
        state.expect("a state exists until it is removed")
    }

    pub fn remove(&mut self, id: StateId) -> S {
        if Self::IS_ZERO_SIZED {
            return self.zero_sized.pop().expect("as many are removed as were inserted");
        }
        self.entries.remove(id.index()).expect("a state is removed once")
    }
}

impl<S> Default for States<S> {
    fn default() -> Self {
        States { entries: Slab::default(), zero_sized: Vec::new() }
    }
}

impl StateId {
    fn of_index(index: u32) -> Self {
        StateId(NonZeroU32::MIN.checked_add(index).expect("the last index is never used"))
    }

    fn index(&self) -> u32 {
        self.0.get() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_reused_after_its_state_is_removed() {
        let mut states = States::default();
        let [a, b, c] = ["a", "b", "c"].map(|state| states.insert(state.to_owned()));
        states.get_mut(&b).push('!');
        assert_eq!(states.remove(a), "a");
        assert_eq!(states.remove(c), "c");
        let [d, e, f] = ["d", "e", "f"].map(|state| states.insert(state.to_owned()));
        assert_eq!([&d, &e, &f].map(StateId::index), [0, 2, 3]);
        assert_eq!([&b, &d, &e, &f].map(|id| states.get_mut(id).clone()), ["b!", "d", "e", "f"]);
        assert_eq!(states.entries.len(), 4);
    }

    #[test]
    fn states_of_size_zero_take_no_memory_and_are_still_dropped() {
        static DROPPED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        struct Nothing;
        impl Drop for Nothing {
            fn drop(&mut self) {
                DROPPED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let dropped = || DROPPED.load(std::sync::atomic::Ordering::Relaxed);

        let mut states = States::default();
        let ids: Vec<StateId> = (0..1_000).map(|_| states.insert(Nothing)).collect();
        assert_eq!((states.entries.len(), states.zero_sized.len(), dropped()), (0, 1_000, 0));
        for id in ids {
            let _: &mut Nothing = states.get_mut(&id);
            drop(states.remove(id));
        }
        assert_eq!((states.zero_sized.len(), dropped()), (0, 1_000));
    }
}
