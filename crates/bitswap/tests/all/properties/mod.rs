//! Properties that hold for any sequence of events.

mod codec;
mod exchange;
mod fake_network;
