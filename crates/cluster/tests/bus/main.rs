//! Tests of [`watchfire_cluster::bus::LocalBus`] over real sockets. Each bus has its own thread, as in a
//! process of its own. Some peers are sockets that a test reads and writes.

mod hostile;
mod links;
mod readiness;
mod routing;
mod slow;
mod support;
