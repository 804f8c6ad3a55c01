//! Reports to coordinators, and what hosts do with the answers.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::time::Duration;

use watchfire_fleet::{Assignment, NEIGHBOURS_MAX, REPORT_INTERVAL, Report};
use watchfire_types::Instant;

use super::{FleetMessage, Simulation, Timer, download_mut};
use crate::fleet::host::{HostId, Lease};
use crate::fleet::image::Layer;

/// How long a coordinator may take. After it the next closest host coordinates.
const COORDINATOR_TIMEOUT: Duration = Duration::from_millis(1500);
/// Coordinators that are asked in turn.
const COORDINATORS_MAX: u32 = 10;
/// How long a host that did not answer is passed over.
const FAILED_FOR: Duration = Duration::from_secs(15);
/// The hosts that a new coordinator asks for holders.
const SUCCESSORS: usize = 3;
/// Holders that one of them names.
const HOLDERS_MAX: usize = 8;

impl Simulation<'_> {
    /// The closest host to a layer that this host has not found to be gone.
    pub(super) fn closest(&mut self, host: HostId, layer: Layer) -> HostId {
        let (now, region) = (self.now, self.region(host));
        let failed = &mut self.hosts[host as usize].failed;
        failed.retain(|_, until| *until > now);
        let mut closest = self.closest[region][layer].values();
        closest.find(|other| !failed.contains_key(other)).copied().unwrap_or(host)
    }

    pub(super) fn report(&mut self, host: HostId, layer: Layer) {
        let coordinator = self.closest(host, layer);
        let report = self.hosts[host as usize].report(&self.image, layer);
        let download = self.host(host).downloads.get_mut(&layer).expect("the caller checked");
        download.report += 1;
        download.is_reporting = true;
        download.coordinator = coordinator;
        let number = download.report;
        if coordinator == host {
            let assignment = self.coordinate(host, host, layer, &report);
            return self.apply(host, layer, number, assignment);
        }
        let at = self.now + COORDINATOR_TIMEOUT;
        self.timers.push(at, Timer::ReportTimeout(host, layer, number));
        self.send(host, coordinator, FleetMessage::Report { layer, number, report });
    }

    /// The coordinator did not answer. The next closest host is asked.
    pub(super) fn report_failed(&mut self, host: HostId, layer: Layer) {
        let until = self.now + FAILED_FOR;
        let Some(download) = self.host(host).downloads.get_mut(&layer) else { return };
        download.is_reporting = false;
        download.tries += 1;
        let (coordinator, tries) = (download.coordinator, download.tries);
        self.host(host).failed.insert(coordinator, until);
        if tries.is_multiple_of(COORDINATORS_MAX) {
            self.report_after(host, layer, REPORT_INTERVAL);
        } else {
            self.report(host, layer);
        }
    }

    pub(super) fn report_after(&mut self, host: HostId, layer: Layer, wait: Duration) {
        let at = self.now + wait;
        let Some(download) = self.host(host).downloads.get_mut(&layer) else { return };
        download.report_at = at;
        self.timers.push(at, Timer::Report(host, layer));
    }

    pub(super) fn count_request(&mut self, host: HostId) {
        let second = self.now.since(Instant::ZERO).as_secs();
        let requests = &mut self.hosts[host as usize].requests;
        if requests.0 != second {
            *requests = (second, 0);
        }
        requests.1 += 1;
        self.requests_per_second_max = self.requests_per_second_max.max(requests.1);
    }

    pub(super) fn coordinate(
        &mut self,
        host: HostId,
        from: HostId,
        layer: Layer,
        report: &Report,
    ) -> Assignment<HostId> {
        let (now, region) = (self.now, self.region(host));
        self.count_request(host);
        self.coordinators.entry((region, layer)).or_default().insert(host);
        if !self.host(host).coordinator.has(&layer) {
            // A new coordinator asks the next ones, which may have coordinated before.
            let others = self.closest[region][layer].values().copied();
            let others: Vec<HostId> =
                others.filter(|other| *other != host).take(SUCCESSORS).collect();
            for other in others {
                if !self.is_online(other) {
                    continue;
                }
                for holder in self.hosts[other as usize].coordinator.holders(&layer, HOLDERS_MAX) {
                    self.host(host).coordinator.handle_announcement(now, &layer, holder);
                }
            }
        }
        self.host(host).coordinator.handle_report(now, &layer, from, report)
    }

    /// Does what the coordinator says.
    pub(super) fn apply(
        &mut self,
        host: HostId,
        layer: Layer,
        number: u64,
        assignment: Assignment<HostId>,
    ) {
        let now = self.now;
        let Some(download) = self.host(host).downloads.get_mut(&layer) else { return };
        if !download.is_reporting || download.report != number {
            return;
        }
        download.is_reporting = false;
        download.tries = 0;
        let lost: Vec<u32> = download
            .leases
            .keys()
            .copied()
            .filter(|segment| !assignment.leases.contains(segment))
            .collect();
        self.report_after(host, layer, assignment.report_within);
        for segment in lost {
            download_mut(&mut self.hosts, host, layer).leases.remove(&segment);
            self.want_known(host, layer, segment);
        }
        for segment in assignment.leases {
            let leases = &mut download_mut(&mut self.hosts, host, layer).leases;
            if let Entry::Vacant(place) = leases.entry(segment) {
                place.insert(Lease { asked: BTreeSet::new(), progress_at: now });
                self.fetch_segment(host, layer, segment, false);
                // The host may have all blocks of it already.
                self.end_lease(host, layer, segment);
            }
        }
        for other in assignment.hosts {
            if self.host(host).add_neighbour(layer, other, NEIGHBOURS_MAX) {
                self.ask_hashes(host, layer, other);
            }
        }
    }
}
