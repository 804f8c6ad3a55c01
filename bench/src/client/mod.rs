//! The client: opens thousands of sockets in one process and does with them what it is told.

mod conversation;
mod crowd;
mod long_poll;
mod orders;
mod phoenix;
mod socket_io;
mod source;
mod websocket;

pub use crowd::obey;
pub use orders::{Order, Outcome, Transport};
