//! Bitswap: which blocks to request from which peers, and which peer to serve next.
//!
//! [`Exchange`] is everything that one node does in Bitswap. It requests the blocks that its
//! sessions want, and sends peers the blocks that they want. It has no streams, no clock and no
//! disk: a driver gives it inputs and carries out its outputs.
//!
//! - [`message`] has the messages of Bitswap 1.0, 1.1 and 1.2, and their encoding.
//! - [`leaves`] is a protocol between Watchfire nodes that does the same with far fewer bytes.
//! - A [`Payload`] stands for a block. A node uses [`watchfire_content::Block`], whose bytes were
//!   hashed when its message was decoded, so the exchange handles no unverified block. A simulation
//!   uses a CID and a length instead.
//! - A [`RequestStrategy`] chooses which block to request from which peer. The default is
//!   [`RarestFirst`].
//! - The exchange queues no bytes. It sends messages that fit into the send buffer of a peer
//!   ([`Exchange::handle_writable`]), and reads a block from the store only to send it immediately.

pub mod leaves;
pub mod message;

mod bit_set;
mod exchange;
mod ledger;
mod limits;
mod output;
mod rarest_first;
mod requester;
mod send_buffer;
mod strategy;
mod totals;
mod uplink;

pub use bit_set::BitSet;
pub use exchange::Exchange;
pub use limits::Limits;
pub use message::{Message, Payload, Presence, Protocol, WantEntry, WantKind};
pub use output::{Misbehaviour, Output};
pub use rarest_first::RarestFirst;
pub use requester::{
    ExchangePolicy, PeerState, Requester, Response, SessionId, Want, WantHaves, Wanted, Wants,
};
pub use strategy::RequestStrategy;
pub use totals::{PeerTotals, Totals};
