//! Hosts that join, leave and begin to fetch.

use std::collections::BTreeMap;

use watchfire_fleet::HashList;

use super::{REGISTRY, Simulation, Timer, distance};
use crate::fleet::host::{Download, HostId};
use crate::network::Host;

impl Simulation<'_> {
    pub(super) fn join(&mut self, host: HostId) {
        let region = self.region(host);
        self.host(host).is_online = true;
        for layer in 0..self.image.layers() {
            let distance = distance(self.plan.seed, layer, host);
            self.closest[region][layer].insert(distance, host);
        }
    }

    pub(super) fn leave(&mut self, host: HostId) {
        let region = self.region(host);
        for layer in 0..self.image.layers() {
            let distance = distance(self.plan.seed, layer, host);
            // Others pass over it when it does not answer.
            if self.plan.noticed_after.is_zero() {
                self.closest[region][layer].remove(&distance);
            }
        }
        let left = self.host(host);
        left.is_online = false;
        left.downloads.clear();
        left.waiters.clear();
        for other in std::mem::take(&mut left.peers) {
            self.network.close(Host(host), Host(other));
            let at = self.now + self.plan.noticed_after;
            self.timers.push(at, Timer::DisconnectNoticed(other, host));
        }
        self.network.close(Host(host), Host(REGISTRY));
    }

    pub(super) fn notice_disconnect(&mut self, host: HostId, other: HostId) {
        let now = self.now;
        if !self.is_online(host) || !self.host(host).peers.remove(&other) {
            return;
        }
        self.host(host).exchange.handle_disconnected(now, other);
        self.host(host).waiters.retain(|waiter| waiter.host != other);
        for download in self.host(host).downloads.values_mut() {
            download.neighbours.remove(&other);
        }
        let region = self.region(other);
        for layer in 0..self.image.layers() {
            let distance = distance(self.plan.seed, layer, other);
            self.closest[region][layer].remove(&distance);
        }
        self.settle(host);
    }

    /// Begins to fetch the next layers, as a container engine does.
    pub(super) fn start_layers(&mut self, host: HostId) {
        let now = self.now;
        let image_layers = self.image.layers();
        while self.is_online(host)
            && self.host(host).downloads.len() < self.plan.layers_at_once
            && self.host(host).next_layer < image_layers
        {
            let one = &mut self.hosts[host as usize];
            let layer = one.next_layer;
            one.next_layer += 1;
            let session = one.exchange.start_session(now);
            one.exchange.set_growing(now, session, true);
            let hashes = HashList::new(self.image.blocks_of(layer), u64::from(host));
            one.downloads.insert(
                layer,
                Download {
                    session,
                    hashes,
                    leases: BTreeMap::new(),
                    neighbours: BTreeMap::new(),
                    report: 0,
                    coordinator: host,
                    is_reporting: false,
                    tries: 0,
                    report_at: now,
                    arrivals: 0,
                    is_batching: false,
                },
            );
            self.start_ticking(host);
            self.report(host, layer);
        }
    }
}
