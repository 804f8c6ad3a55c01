//! The decisions of a fleet of image mirrors: which host fetches which segment of a blob from the
//! registry, and which hosts exchange its blocks.
//!
//! - A [`Coordinator`] leases segments to hosts, and names hosts to each other. Hosts send it a
//!   [`Report`] and get an [`Assignment`].
//! - A [`HashList`] has the hashes of a blob's blocks in the order in which a host learned them.
//! - [`Segments`] are the parts of a blob that a host is fetching from the registry.
//!
//! `watchfire-mirror` runs them on real hosts, and `watchfire-sim` on simulated ones. Absent on
//! purpose: requests to other hosts, the choice of the host that coordinates, and the blocks.
//!
//! ```
//! use watchfire_fleet::{Coordinator, Report};
//! use watchfire_types::Instant;
//!
//! let mut coordinator = Coordinator::new(4, 1);
//! let report = Report { segments: 8, wanted_leases: 2, wanted_hosts: 8, ..Report::default() };
//! let first = coordinator.handle_report(Instant::ZERO, &"layer", "host a", &report);
//! assert_eq!(first.leases, [0]);
//! let second = coordinator.handle_report(Instant::ZERO, &"layer", "host b", &report);
//! assert_eq!((second.leases, second.hosts), (vec![1], vec!["host a"]));
//! ```

#![allow(missing_docs, reason = "only the crate `watchfire` is documented item by item")]

/// Hosts that a host asks for hashes because the coordinator named them.
pub const NEIGHBOURS_MAX: usize = 8;

/// Hosts that a host asks for hashes in all. Beyond those that the coordinator named it asks back the
/// hosts that ask it. Otherwise the last of many hosts that start together could have blocks of which
/// no other host hears, because all had enough neighbours before.
pub const ALL_NEIGHBOURS_MAX: usize = 2 * NEIGHBOURS_MAX;

mod coordinator;
mod hashes;
mod segments;

pub use coordinator::{
    ANNOUNCEMENT_TIME, Assignment, Coordinator, LAG_MAX, LEASE_TIME, REPORT_INTERVAL, Report,
    extended,
};
pub use hashes::{COMPLETE_LIST, HASHES_MAX, HashList, Learned};
pub use segments::{SEGMENT_BLOCKS, Segments};
