//! Who is whose neighbour: `k` random rings through all peers.
//!
//! Every peer stands on each of `k` rings, between two others; its neighbours are those. The union
//! of a few random rings is an expander: few links a peer, few hops between any two, and hard to
//! cut in pieces. Nine peers or fewer are all each other's neighbours instead.
//!
//! A peer that is gone may come back, as one whose tab is loaded anew does: [`Rings::reserve`] keeps
//! its place for a while, so that its neighbours keep theirs.
//!
//! [`Rings`] knows no sockets and no clock: a driver tells it who joins and leaves, and carries
//! the [`Change`]s to the peers. Its randomness follows from a seed: the same seed and the same peers make the same
//! rings, in every process that knows who is there.
//!
//! ```
//! use watchfire_tracker::{Change, Rings};
//! use watchfire_types::PeerId;
//!
//! let mut rings = Rings::new(2, 7);
//! assert_eq!(rings.join(PeerId(1)), []);
//! assert_eq!(rings.join(PeerId(2)), [Change::Linked(PeerId(1), PeerId(2))]);
//! for peer in 3..=1_000 {
//!     rings.join(PeerId(peer));
//! }
//! assert!(rings.neighbours(PeerId(1)).len() <= 4);
//! ```

mod change;
mod mixer;
mod reservations;
mod ring;
mod rings;

pub use change::Change;
pub use rings::{MESH_MAX, Rings};
