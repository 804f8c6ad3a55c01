//! The client process: it opens thousands of sockets and executes commands that arrive on stdin.
//!
//! The bench has a Phoenix and WebSocket client of its own on purpose. Sharing the server's code
//! would share its bugs: a wrong frame would be written and read without an error. So this client
//! knows only the specifications, and the same code measures every server.
//!
//! Imports go one way: `socket_pool` drives a `conversation` for each socket; that is a
//! `websocket`, which carries `phoenix` or `socket_io`, or a `long_poll`, which carries `phoenix`.
//! All of them return an `event`.

mod commands;
mod conversation;
mod event;
mod long_poll;
mod phoenix;
mod socket_io;
mod socket_pool;
mod source;
mod websocket;

pub use commands::{Command, Outcome, Transport};
pub use socket_pool::run;
