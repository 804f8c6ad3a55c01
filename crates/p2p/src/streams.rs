//! The Bitswap streams of a host.
//!
//! To send, a connection has one stream that stays open, or two if both sides speak the leaves
//! protocol. To receive, it reads every stream that the other side opens.
//!
//! Implementations differ in how they use streams. Some open a new stream for each message, some
//! write all messages into one, and some never open a second stream after the first was closed. So
//! the host reads a stream of the other side until its end and never closes it first.
//!
//! The host reads no bytes while it has no room for the message. Events of a connection wait in a
//! short queue, and later messages wait in the streams.

mod behaviour;
mod handler;
mod message_reader;
mod message_writer;
mod protocols;
mod receive_budget;
mod send_streams;

pub(crate) use behaviour::{BitswapStreams, StreamEvent};
pub(crate) use protocols::SupportedProtocols;
