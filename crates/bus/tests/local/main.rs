//! What a [`watchfire_bus::LocalBus`] promises, over real sockets. Each bus has a thread of its own, as it
//! would have in a process of its own; some peers are sockets in a test's hands.

mod hostile;
mod links;
mod readiness;
mod routing;
mod slow;
mod support;
