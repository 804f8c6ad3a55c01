//! Bitswap: whom to ask for what, and whom to serve next.
//!
//! [`Exchange`] is everything that one node does in Bitswap: it asks its peers for the blocks that
//! its sessions want, and gives peers the blocks that they want. It knows no streams, no clock and
//! no disk: a driver tells it what happened, and does what it puts out.
//!
//! - [`message`] is what peers tell one another, in the bytes of Bitswap 1.0, 1.1 and 1.2.
//! - [`leaves`] says the same in far fewer bytes, to peers that speak it too.
//! - A [`Payload`] is what travels as a block. For a node that is [`content::Block`], whose bytes
//!   were hashed when its message was decoded, so that nothing unverified gets in here. A simulation
//!   carries a name and a length instead.
//! - The core queues no bytes: it sends what the pipe to a peer says it has room for
//!   ([`Exchange::writable`]), and reads a block from the store only to send it at once.

pub mod leaves;
pub mod message;

mod asking;
mod behaviour;
mod dice;
mod exchange;
mod ledger;
mod limits;
mod output;
mod payload;
mod pipe;
mod protocol;
mod totals;
mod uplink;
mod want;

pub use behaviour::Behaviour;
pub use exchange::Exchange;
pub use limits::Limits;
pub use message::{Message, Presence, WantEntry, WantKind};
pub use output::{Misbehaviour, Output};
pub use payload::Payload;
pub use protocol::Protocol;
pub use totals::{PeerTotals, Totals};
pub use want::{SessionId, Want};
