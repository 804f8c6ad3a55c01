//! The gateway between browsers and libp2p peers such as kubo.
//!
//! A libp2p host runs beside the server, in one of its processes. It stores nothing itself. When a
//! peer wants a block of an available page, the gateway fetches it from the page's browsers through
//! a page client of its own, and sends it on. It works the other way round as well.
//!
//! [`router`] knows which page a wanted block belongs to, [`block_buffer`] stores blocks until they
//! are read, and a [`transfer`] moves the blocks of one page in one direction. [`page_source`] notices
//! when no libp2p peer has a page any more.
//! [`crate::page::Availability`] knows which pages are available, and which are only watched.

mod block_buffer;
mod connector;
mod host;
mod host_metrics;
mod page_source;
mod router;
mod transfer;

pub(crate) use connector::SocketPairConnector;
pub(crate) use host::{Gateway, check, check_addresses};
pub use host::{GatewayError, host_settings};
pub(crate) use host_metrics::HostMetrics;
