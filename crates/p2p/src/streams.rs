//! Bitswap's streams: one that stays open for what we say to a peer, or two where both speak leaves, and
//! as many as the peer likes for what it says to us.
//!
//! Some peers answer on a fresh stream for each message, some write all they ever say into one,
//! and some never open a second one after the first was closed before them. So a stream of the
//! other side is read until its end, however many messages are in it, and is never closed first;
//! many are read at once. No bytes are read while the host has no room for what they say: the
//! events of a connection wait in a short queue, and what is behind them waits in the streams.

mod arrivals;
mod behaviour;
mod handler;
mod inbound;
mod lanes;
mod offer;
mod outbound;

pub(crate) use behaviour::{Event, Streams};
pub(crate) use offer::Offer;
