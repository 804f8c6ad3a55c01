//! Blocks from the registry and from other hosts, until a layer is complete.

use std::ops::Range;
use std::time::Duration;

use watchfire_fleet::Learned;
use watchfire_types::Instant;

use super::{FleetMessage, REGISTRY, Simulation, Timer};
use crate::fleet::host::{HostId, Lease, Waiter};
use crate::fleet::image::Layer;

/// How often a host looks after its downloads.
const TICK: Duration = Duration::from_millis(250);
/// When no new block arrives for this time, a host fetches leased blocks that other hosts should have.
const KNOWN_BLOCK_WAIT: Duration = Duration::from_secs(1);
/// How long it waits for them while any block arrives.
const SLOW_BLOCK_MAX: Duration = Duration::from_secs(10);

impl Simulation<'_> {
    /// Asks the registry for the blocks of a segment whose hashes no host told, or for all.
    pub(super) fn fetch_segment(&mut self, host: HostId, layer: Layer, segment: u32, all: bool) {
        let one = &mut self.hosts[host as usize];
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for block in self.image.segment(layer, segment) {
            if one.has(self.image.number(layer, block)) {
                continue;
            }
            let Some(download) = one.downloads.get_mut(&layer) else { return };
            if !all && download.hashes.get(block).is_some() {
                continue;
            }
            let Some(lease) = download.leases.get_mut(&segment) else { return };
            lease.asked.insert(block);
            match ranges.last_mut() {
                Some(last) if last.end == block => last.end += 1,
                _ => ranges.push(block..block + 1),
            }
        }
        for blocks in ranges {
            self.send(host, REGISTRY, FleetMessage::AskRange { layer, blocks });
        }
    }

    /// Requests the blocks of a segment whose hashes are known.
    pub(super) fn want_known(&mut self, host: HostId, layer: Layer, segment: u32) {
        let now = self.now;
        let one = &mut self.hosts[host as usize];
        let Some(download) = one.downloads.get(&layer) else { return };
        let blocks = self.image.segment(layer, segment);
        let known = blocks.filter(|block| download.hashes.get(*block).is_some());
        let wants: Vec<_> = known.filter_map(|block| one.want(&self.image, layer, block)).collect();
        let session = download.session;
        one.exchange.want(now, session, wants);
        self.settle(host);
    }

    /// Writes a block from the registry or from another host.
    pub(super) fn write(&mut self, host: HostId, number: u32, is_from_registry: bool) {
        let now = self.now;
        let (layer, block) = self.image.place(number);
        let (hash, len) = (self.image.hash(number), self.image.len_of(number) as usize);
        if !self.is_online(host) {
            return;
        }
        let is_awaited = self.host_plan(host).leaves_at.is_none();
        let one = &mut self.hosts[host as usize];
        if one.store(&self.image, number) {
            self.held += u64::from(is_awaited);
            one.received_at.get_or_insert((now, now)).1 = now;
            one.received_blocks += 1;
            if is_from_registry && let Some(download) = one.downloads.get(&layer) {
                let cid = self.image.cid(number);
                one.exchange.cancel_wants(now, download.session, [cid]);
            }
            one.exchange.handle_stored(now, self.image.cid(number), len);
        } else if !is_from_registry {
            self.record_violation(host, format_args!("it reported block {number} twice"));
        }
        let one = &mut self.hosts[host as usize];
        let Some(download) = one.downloads.get_mut(&layer) else { return };
        download.arrivals += 1;
        let segment = (block / watchfire_fleet::SEGMENT_BLOCKS) as u32;
        if let Some(lease) = download.leases.get_mut(&segment) {
            lease.asked.remove(&block);
            lease.progress_at = now;
        }
        if download.hashes.insert(block as u32, hash) == Learned::New {
            self.note_hashes(host, layer);
        }
        self.end_lease(host, layer, segment);
        self.end_layer(host, layer);
        self.settle(host);
    }

    /// Reports a fetched segment immediately.
    pub(super) fn end_lease(&mut self, host: HostId, layer: Layer, segment: u32) {
        let one = &mut self.hosts[host as usize];
        let image = &self.image;
        let mut blocks = image.segment(layer, segment);
        if !blocks.all(|block| one.has(image.number(layer, block))) {
            return;
        }
        let Some(download) = one.downloads.get_mut(&layer) else { return };
        if download.leases.remove(&segment).is_some() && !download.is_reporting {
            self.report_after(host, layer, Duration::ZERO);
        }
    }

    /// Ends the download of a complete layer, and tells its coordinator.
    pub(super) fn end_layer(&mut self, host: HostId, layer: Layer) {
        let now = self.now;
        if !self.hosts[host as usize].is_complete(&self.image, layer) {
            return;
        }
        let Some(download) = self.host(host).downloads.remove(&layer) else { return };
        self.host(host).exchange.stop_session(now, download.session);
        let report = self.hosts[host as usize].report(&self.image, layer);
        let coordinator = self.closest(host, layer);
        if coordinator == host {
            drop(self.coordinate(host, host, layer, &report));
            self.host(host).coordinator.handle_announcement(now, &layer, host);
        } else {
            let number = download.report + 1;
            self.send(host, coordinator, FleetMessage::Report { layer, number, report });
            self.send(host, coordinator, FleetMessage::Announce { layer });
        }
        let is_last = self.host(host).next_layer == self.image.layers();
        if self.host(host).downloads.is_empty() && is_last {
            self.host(host).finished_at = Some(now);
            self.finished += usize::from(self.host_plan(host).leaves_at.is_none());
        }
        self.send_hashes(host, layer);
        self.start_layers(host);
    }

    pub(super) fn tick(&mut self, host: HostId) {
        let now = self.now;
        self.host(host).is_ticking = false;
        if !self.is_online(host) {
            return;
        }
        let one = &mut self.hosts[host as usize];
        let expired = one.waiters.extract_if(.., |waiter| waiter.expires_at <= now);
        let expired: Vec<Waiter> = expired.collect();
        let received_at = one.received_at.map_or(Instant::ZERO, |(_, last)| last);
        let is_stalled = |lease: &Lease| {
            let wait = now.since(lease.progress_at);
            let is_quiet = now.since(received_at) >= KNOWN_BLOCK_WAIT;
            lease.asked.is_empty()
                && (wait >= SLOW_BLOCK_MAX || (is_quiet && wait >= KNOWN_BLOCK_WAIT))
        };
        let stalled: Vec<(Layer, u32)> = one
            .downloads
            .iter()
            .flat_map(|(layer, download)| {
                let leases = download.leases.iter().filter(|(_, lease)| is_stalled(lease));
                leases.map(|(segment, _)| (*layer, *segment))
            })
            .collect();
        for Waiter { host: to, layer, list, .. } in expired {
            let answer = Some((list, Vec::new()));
            self.send(host, to, FleetMessage::Hashes { layer, answer });
        }
        for (layer, segment) in stalled {
            self.fetch_segment(host, layer, segment, true);
        }
        let one = self.host(host);
        if !one.downloads.is_empty() || !one.waiters.is_empty() {
            self.start_ticking(host);
        }
    }

    pub(super) fn start_ticking(&mut self, host: HostId) {
        let at = self.now + TICK;
        if !std::mem::replace(&mut self.host(host).is_ticking, true) {
            self.timers.push(at, Timer::Tick(host));
        }
    }
}
