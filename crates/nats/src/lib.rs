//! Links between the processes of a server on several machines, over NATS.
//!
//! [`watchfire_bus::LocalBus`] exchanges messages over one stream for each other process, and
//! needs nothing from it but that bytes arrive in order while it lasts. Between processes of one
//! machine that stream is a socket pair. This crate makes it from NATS messages, so that
//! everything that holds between processes holds between machines.
//!
//! - A [`Machine`] gets the numbers of its processes and the secret of the cluster.
//! - [`Links`] connects one process to those of the other machines: it finds them, opens a link to
//!   each, and gives one end of it to the bus.
//!
//! # Loss
//!
//! NATS delivers at most once. A message may be lost when a NATS server dies or a client is slow.
//! Each side of a link numbers what it sends, keeps it until the other side has it, and sends it
//! again. So a link survives the loss of a NATS server without the loss of a message. A process that
//! is silent for six seconds is gone: its links end, and the bus reports it as down.
//!
//! # Bounds
//!
//! A link has at most eight MiB on its way, counted until the other side's bus has read them. Then
//! it reads no more from the bus, whose own queue grows up to its limits: see
//! [`watchfire_bus::BusLimits`].

mod claim;
mod link;
mod links;
mod machine;
mod packet;
mod settings;

pub use claim::ClaimError;
pub use links::{LinkTotals, Links, Process};
pub use machine::{JoinError, Machine};
pub use settings::{NatsError, NatsSettings};

/// A number that is larger than those of earlier starts, and differs between machines.
fn new_incarnation() -> Result<u64, getrandom::Error> {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    Ok((millis << 20) | u64::from(getrandom::u32()? >> 12))
}
