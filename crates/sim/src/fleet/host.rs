//! One simulated host of a fleet: its exchange, the layers that it fetches and has, and the
//! coordinator that it may become.

use std::collections::{BTreeMap, BTreeSet};

use watchfire_bitswap::{Exchange, SessionId, Want};
use watchfire_fleet::{Coordinator, HashList, NEIGHBOURS_MAX, Report, SEGMENT_BLOCKS};
use watchfire_types::Instant;

use super::image::{Image, Layer};
use crate::dag::FakeBlock;

/// The number of a host on the network. The registry is 0.
pub(super) type HostId = u32;

/// Connections to the registry for one layer, as in the mirror's default settings.
const CONNECTIONS_PER_BLOB: u32 = 4;

pub(super) struct FleetHost {
    pub exchange: Exchange<HostId, FakeBlock>,
    pub coordinator: Coordinator<Layer, HostId>,
    pub is_online: bool,
    /// The blocks of the image that it has.
    store: Vec<bool>,
    /// For each layer, how many blocks it has.
    held: Vec<usize>,
    pub downloads: BTreeMap<Layer, Download>,
    pub next_layer: Layer,
    pub has_started: bool,
    pub finished_at: Option<Instant>,
    /// When it got the first block and the last one.
    pub received_at: Option<(Instant, Instant)>,
    pub received_blocks: usize,
    /// Connected hosts, as far as it knows.
    pub peers: BTreeSet<HostId>,
    pub handshakes: usize,
    /// Hosts that did not answer, and until when they are passed over.
    pub failed: BTreeMap<HostId, Instant>,
    /// Hosts that wait for more hashes.
    pub waiters: Vec<Waiter>,
    /// The current second, and the requests that it received as a coordinator since its start.
    pub requests: (u64, u32),
    pub wake_at: Option<Instant>,
    pub is_ticking: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub host: HostId,
    pub layer: Layer,
    pub list: u64,
    pub after: usize,
    pub expires_at: Instant,
}

pub(super) struct Download {
    pub session: SessionId,
    pub hashes: HashList,
    pub leases: BTreeMap<u32, Lease>,
    pub neighbours: BTreeMap<HostId, Neighbour>,
    /// The number of the last report. An answer to an earlier one is late.
    pub report: u64,
    /// The host that was sent the last report.
    pub coordinator: HostId,
    pub is_reporting: bool,
    /// Coordinators that did not answer the report.
    pub tries: u32,
    pub report_at: Instant,
    pub arrivals: u64,
    /// Whether waiting hosts get new hashes soon.
    pub is_batching: bool,
}

/// A segment that the host fetches from the registry.
#[derive(Debug)]
pub(super) struct Lease {
    /// Blocks that the registry was asked for and has not sent.
    pub asked: BTreeSet<usize>,
    pub progress_at: Instant,
}

/// A host that is asked for hashes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Neighbour {
    pub list: u64,
    pub after: usize,
    pub empty_answers: u32,
}

impl FleetHost {
    pub(super) fn new(
        exchange: Exchange<HostId, FakeBlock>,
        coordinator: Coordinator<Layer, HostId>,
        image: &Image,
    ) -> Self {
        FleetHost {
            exchange,
            coordinator,
            is_online: false,
            store: vec![false; image.blocks()],
            held: vec![0; image.layers()],
            downloads: BTreeMap::new(),
            next_layer: 0,
            has_started: false,
            finished_at: None,
            received_at: None,
            received_blocks: 0,
            peers: BTreeSet::new(),
            handshakes: 0,
            failed: BTreeMap::new(),
            waiters: Vec::new(),
            requests: (0, 0),
            wake_at: None,
            is_ticking: false,
        }
    }

    pub(super) fn has(&self, number: u32) -> bool {
        self.store[number as usize]
    }

    /// Stores a block. Returns whether it is new.
    pub(super) fn store(&mut self, image: &Image, number: u32) -> bool {
        let is_new = !std::mem::replace(&mut self.store[number as usize], true);
        self.held[image.place(number).0] += usize::from(is_new);
        is_new
    }

    pub(super) fn is_complete(&self, image: &Image, layer: Layer) -> bool {
        self.held[layer] == image.blocks_of(layer)
    }

    /// The request that it would send as a want, unless it fetches the block from the registry.
    pub(super) fn want(&self, image: &Image, layer: Layer, block: usize) -> Option<Want> {
        let number = image.number(layer, block);
        let download = self.downloads.get(&layer)?;
        let is_leased = download.leases.contains_key(&((block / SEGMENT_BLOCKS) as u32));
        (!self.has(number) && !is_leased).then(|| image.want(number))
    }

    pub(super) fn report(&self, image: &Image, layer: Layer) -> Report {
        let segments = image.segments_of(layer);
        if self.is_complete(image, layer) {
            return Report { segments, present: vec![(0, segments)], ..Report::default() };
        }
        let Some(download) = self.downloads.get(&layer) else { return Report::default() };
        let fetching: Vec<u32> = download.leases.keys().copied().collect();
        let is_present = |segment: &u32| {
            image.segment(layer, *segment).all(|block| self.has(image.number(layer, block)))
        };
        let mut present: Vec<(u32, u32)> = Vec::new();
        for segment in (0..segments).filter(is_present) {
            match present.last_mut() {
                Some(last) if last.1 == segment => last.1 += 1,
                _ => present.push((segment, segment + 1)),
            }
        }
        Report {
            segments,
            present,
            wanted_leases: CONNECTIONS_PER_BLOB.saturating_sub(fetching.len() as u32),
            fetching,
            wanted_hosts: NEIGHBOURS_MAX.saturating_sub(download.neighbours.len()) as u32,
            arrivals: download.arrivals,
            ..Report::default()
        }
    }

    /// Adds a neighbour, unless there are `neighbours_max`. Returns whether it is new and there was room.
    pub(super) fn add_neighbour(&mut self, layer: Layer, host: HostId, max: usize) -> bool {
        let Some(download) = self.downloads.get_mut(&layer) else { return false };
        let has_room = download.neighbours.len() < max;
        if !has_room || download.neighbours.contains_key(&host) {
            return false;
        }
        download.neighbours.insert(host, Neighbour::default());
        true
    }
}
