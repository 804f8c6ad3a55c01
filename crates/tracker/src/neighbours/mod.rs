//! The neighbours of each peer, on `k` random rings through all peers.
//!
//! Every peer is on each of `k` rings, and its neighbours are the two peers beside it there. The
//! union of a few random rings is an expander: few links per peer, few hops between any two, and
//! hard to partition. Nine peers or fewer are all each other's neighbours instead.
//!
//! A peer that left may return, as after a reload. [`Rings::reserve`] keeps its place for a while,
//! so that its neighbours stay the same.
//!
//! [`Rings`] has no sockets and no clock: a driver calls it for joins and leaves, and sends each
//! [`Change`] to the peers. Its randomness comes from a seed: the same seed and peers give the
//! same rings in every process.
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

mod mixer;
mod ring;
mod rings;

pub use rings::{Change, FULL_MESH_PEERS_MAX, Rings};
