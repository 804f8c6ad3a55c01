//! What the joined clients of one channel keep, side by side instead of each in a box of its own.

use std::any::Any;
use std::num::NonZeroU32;

use crate::pieces::Pieces;

/// The [`States`] of some channel.
pub(crate) type AnyStates = Box<dyn Any + Send>;

/// One joined client's state, among those of its channel on its shard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StateId(NonZeroU32);

const _: () = assert!(size_of::<Option<StateId>>() == 4, "kept once per channel");

/// The states of one channel's clients on one shard.
pub(super) struct States<S> {
    places: Pieces<Place<S>>,
    first_vacant: u32,
    /// States of a type without content: one is as good as another, and a list of them takes no
    /// memory.
    alike: Vec<S>,
}

enum Place<S> {
    Taken(S),
    /// Where the next vacant place is.
    Vacant(u32),
}

/// The end of the list of vacant places.
const NONE: u32 = u32::MAX;

impl<S> States<S> {
    const ARE_ALIKE: bool = size_of::<S>() == 0;

    pub fn insert(&mut self, state: S) -> StateId {
        if Self::ARE_ALIKE {
            self.alike.push(state);
            return StateId::of_place(0);
        }
        let place = self.first_vacant;
        match self.places.get_mut(place as usize) {
            Some(vacant) => {
                match std::mem::replace(vacant, Place::Taken(state)) {
                    Place::Vacant(next) => self.first_vacant = next,
                    Place::Taken(_) => unreachable!("only vacant places are listed as such"),
                }
                StateId::of_place(place)
            }
            None => {
                let place = u32::try_from(self.places.len()).expect("fewer than 2^32 clients");
                self.places.push(Place::Taken(state));
                StateId::of_place(place)
            }
        }
    }

    pub fn get_mut(&mut self, id: &StateId) -> &mut S {
        let state = match Self::ARE_ALIKE {
            true => self.alike.last_mut(),
            false => match &mut self.places[id.place() as usize] {
                Place::Taken(state) => Some(state),
                Place::Vacant(_) => None,
            },
        };
        state.expect("a state is there until it is removed")
    }

    pub fn remove(&mut self, id: StateId) -> S {
        if Self::ARE_ALIKE {
            return self.alike.pop().expect("as many are removed as were inserted");
        }
        let vacant = Place::Vacant(self.first_vacant);
        let removed = std::mem::replace(&mut self.places[id.place() as usize], vacant);
        let Place::Taken(state) = removed else { unreachable!("a state is removed once") };
        self.first_vacant = id.place();
        state
    }
}

impl<S> Default for States<S> {
    fn default() -> Self {
        States { places: Pieces::default(), first_vacant: NONE, alike: Vec::new() }
    }
}

impl StateId {
    fn of_place(place: u32) -> Self {
        StateId(NonZeroU32::MIN.checked_add(place).expect("the last place is never taken"))
    }

    fn place(&self) -> u32 {
        self.0.get() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_goes_to_another_state_once_its_own_is_removed() {
        let mut states = States::default();
        let [a, b, c] = ["a", "b", "c"].map(|state| states.insert(state.to_owned()));
        states.get_mut(&b).push('!');
        assert_eq!(states.remove(a), "a");
        assert_eq!(states.remove(c), "c");
        let [d, e, f] = ["d", "e", "f"].map(|state| states.insert(state.to_owned()));
        assert_eq!([&d, &e, &f].map(StateId::place), [2, 0, 3]);
        assert_eq!([&b, &d, &e, &f].map(|id| states.get_mut(id).clone()), ["b!", "d", "e", "f"]);
        assert_eq!(states.places.len(), 4);
    }

    #[test]
    fn states_without_content_take_no_memory_and_are_dropped_all_the_same() {
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
        assert_eq!((states.places.len(), states.alike.len(), dropped()), (0, 1_000, 0));
        for id in ids {
            let _: &mut Nothing = states.get_mut(&id);
            drop(states.remove(id));
        }
        assert_eq!((states.alike.len(), dropped()), (0, 1_000));
    }
}
