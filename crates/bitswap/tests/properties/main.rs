//! What holds whatever happens, in whatever order.

mod codec;
mod exchange;
mod fake_network;
