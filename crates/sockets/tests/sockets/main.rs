//! Tests of a socket server over real loopback sockets.
//!
//! No test sleeps: a test waits for bytes, for an event of the handler or for a count, each with a
//! deadline.

mod support;

mod answers;
mod autobahn;
mod bad_input;
mod closing;
mod draining;
mod fairness;
mod handing_over;
mod http;
mod listening;
mod long_poll;
mod parked_upgrades;
mod proxy_protocol;
mod slow_readers;
mod tls;
mod tungstenite_peer;
