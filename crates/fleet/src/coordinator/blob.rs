//! One blob as its coordinator sees it: its hosts, the segments that they have, and the leases.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use watchfire_types::{Instant, Rng};

use super::{LEASE_TIME, REPORT_INTERVAL, Report};

/// Hosts that are known for a blob. When the limit is reached, further ones get no leases, and are not
/// named to others.
const HOSTS_MAX: usize = 16_384;
/// Holders of a small blob that a host asked in vain. When the limit is reached, no further holder is named to
/// it, and it may fetch the blob.
const FAILED_HOLDERS_MAX: usize = 8;
/// Hosts that fetch a small blob from one holder at a time. Further ones wait.
const TRANSFERS_PER_HOLDER_MAX: u32 = 4;
/// Leases of a blob at its start.
const FIRST_LEASES: usize = 2;
/// Segments that arrive faster than this are always worth another lease.
const SHORT_SEGMENT: Duration = Duration::from_millis(400);

#[derive(Debug)]
pub(super) struct Blob<P> {
    pub(super) hosts: Vec<Host<P>>,
    places: BTreeMap<P, usize>,
    /// How many hosts have each segment.
    pub(super) holders: Vec<u32>,
    leases: BTreeMap<u32, Lease<P>>,
    pace: Pace,
    /// Reports of hosts that had got something since the one before.
    pub(super) progress: u64,
    /// No segment before it is free, unless it was freed since.
    first_free: u32,
    swept_at: Instant,
    pub(super) used_at: Instant,
    /// When the first host reported.
    began_at: Instant,
}

#[derive(Debug)]
struct Lease<P> {
    host: P,
    since: Instant,
}

/// How many segments are fetched from the registry at the same time.
///
/// Where the link of the registry is the limit, each further lease makes all of them slower: connections without a byte
/// for seconds are given up, what they have of a block is fetched again, and hosts have little to pass on. A registry
/// that limits each connection, or is far away, needs several. The time of a segment tells the two apart: with one more
/// lease it stays the same if connections are the limit, and grows if their link is.
#[derive(Debug)]
struct Pace {
    leases: usize,
    /// The least time of a segment, or the last one with a single lease.
    segment_time: Duration,
}

impl Pace {
    fn note(&mut self, took: Duration) {
        if self.leases == 1 || took < self.segment_time {
            self.segment_time = took;
        }
        if took <= SHORT_SEGMENT || took < self.segment_time * 3 / 2 {
            self.leases += 1;
        } else if took > self.segment_time * 7 / 4 {
            self.leases = (self.leases - 1).max(1);
        }
    }
}

#[derive(Debug)]
pub(super) struct Host<P> {
    pub(super) id: P,
    pub(super) expires_at: Instant,
    pub(super) present: Vec<(u32, u32)>,
    arrivals: u64,
    pub(super) is_downloading: bool,
    /// Hosts that fetch the small blob from this one now.
    transfers: u32,
    /// The holder that this host was told to fetch from.
    holder: Option<P>,
    /// Holders that sent nothing valid to this host.
    failed: Vec<P>,
    /// Leases that it got so far, and whether it would take more.
    granted: u32,
    wants_leases: bool,
}

impl<P: Copy + Ord + Debug> Blob<P> {
    pub(super) fn new(now: Instant) -> Self {
        Blob {
            hosts: Vec::new(),
            places: BTreeMap::new(),
            holders: Vec::new(),
            leases: BTreeMap::new(),
            pace: Pace { leases: FIRST_LEASES, segment_time: Duration::MAX },
            progress: 0,
            first_free: 0,
            swept_at: now,
            used_at: now,
            began_at: now,
        }
    }

    /// The number of segments is known from the first report. An announcement alone names none, so
    /// its holders have one segment until then.
    pub(super) fn set_segments(&mut self, segments: u32) {
        let segments = segments as usize;
        if self.holders.len() >= segments {
            return;
        }
        let known = self.holders.len() as u32;
        self.holders.resize(segments, 0);
        for host in &mut self.hosts {
            if host.present == [(0, known)] && !host.is_downloading {
                host.present = vec![(0, segments as u32)];
                self.holders[known as usize..].iter_mut().for_each(|holders| *holders += 1);
            }
        }
    }

    /// Takes over the state of a host. Returns whether there is room for it.
    pub(super) fn update(&mut self, now: Instant, id: P, report: &Report) -> bool {
        let place = match self.places.get(&id) {
            Some(place) => *place,
            None if self.hosts.len() >= HOSTS_MAX => return false,
            None => {
                self.places.insert(id, self.hosts.len());
                self.hosts.push(Host {
                    id,
                    expires_at: now,
                    present: Vec::new(),
                    arrivals: 0,
                    is_downloading: true,
                    transfers: 0,
                    holder: None,
                    failed: Vec::new(),
                    granted: 0,
                    wants_leases: false,
                });
                self.hosts.len() - 1
            }
        };
        if report.is_stalled
            && let Some(holder) = self.end_transfer(id)
        {
            self.hosts[place].failed.push(holder);
        }
        let segments = self.holders.len() as u32;
        let present = normal(&report.present, segments);
        let before = std::mem::replace(&mut self.hosts[place].present, present.clone());
        self.count(&before, |holders| *holders -= 1);
        self.count(&present, |holders| *holders += 1);
        let arrivals = std::mem::replace(&mut self.hosts[place].arrivals, report.arrivals);
        if report.arrivals > arrivals {
            self.progress += 1;
        }
        let is_complete = present == [(0, segments)];
        self.hosts[place].is_downloading = !is_complete;
        self.hosts[place].wants_leases = !is_complete && report.wanted_leases > 0;
        if is_complete {
            self.end_transfer(id);
        }
        let fetching = &report.fetching;
        let has =
            |segment: &u32| present.iter().any(|(start, end)| (*start..*end).contains(segment));
        for (segment, lease) in
            self.leases.extract_if(.., |one, lease| lease.host == id && !fetching.contains(one))
        {
            if has(&segment) {
                self.pace.note(now.since(lease.since));
            }
        }
        for segment in fetching.iter().filter(|segment| **segment < segments) {
            if self.holders[*segment as usize] == 0 {
                self.leases.entry(*segment).or_insert(Lease { host: id, since: now });
            }
        }
        // Segments may have become free.
        self.first_free = 0;
        true
    }

    fn count(&mut self, ranges: &[(u32, u32)], change: impl Fn(&mut u32)) {
        for (start, end) in ranges {
            self.holders[*start as usize..*end as usize].iter_mut().for_each(&change);
        }
    }

    /// Keeps a host for some time. A host with leases is given up sooner, so that another fetches its
    /// segments.
    pub(super) fn extend(&mut self, now: Instant, id: P, time: Duration, lease_time: Duration) {
        let Some(place) = self.places.get(&id) else { return };
        let has_lease = self.leases.values().any(|lease| lease.host == id);
        let host = &mut self.hosts[*place];
        host.expires_at = match (host.is_downloading, has_lease) {
            (true, true) => now + lease_time,
            (true, false) => now + time.max(lease_time),
            (false, _) => host.expires_at.max(now + time.max(lease_time)),
        };
    }

    /// Grants leases to a host. Returns all that it has.
    pub(super) fn lease(
        &mut self,
        now: Instant,
        id: P,
        report: &Report,
        leases_max: usize,
    ) -> Vec<u32> {
        let mut own: Vec<u32> = self.held_by(id).collect();
        let Some(place) = self.places.get(&id).copied() else { return own };
        self.pace.leases = self.pace.leases.min(leases_max);
        // The segments of a start are short, and a container waits for them. A stalled host must not wait either.
        let is_urgent = report.only_first || report.is_stalled;
        let leases_max = if is_urgent { leases_max } else { self.pace.leases };
        if report.wanted_leases == 0 || self.leases.len() >= leases_max {
            return own;
        }
        let has_holder = || (0..self.hosts.len()).any(|place| self.may_ask(id, place));
        // A segment counts as free if the others that have it do not send it.
        let takes_held = report.is_stalled && !(report.wants_holder && has_holder());
        let downloading = self.hosts.iter().filter(|host| host.is_downloading).count();
        // Others may be about to report.
        let is_early = now.since(self.began_at) < REPORT_INTERVAL;
        let own_max = match report.only_first {
            // Such a lease is short.
            true => leases_max,
            false if is_early => 1,
            false => (leases_max / downloading.max(1)).max(1),
        };
        let has_lease = |id: P| self.leases.values().any(|lease| lease.host == id);
        let waiting = self
            .hosts
            .iter()
            .filter(|host| host.wants_leases && host.id != id && !has_lease(host.id));
        let least = waiting.map(|host| host.granted).min().unwrap_or(u32::MAX);
        let wanted = own.len() + report.wanted_leases as usize;
        let mut first = report.first;
        while own.len() < wanted.min(own_max) && self.leases.len() < leases_max {
            // A waiting host that had fewer leases is next.
            let has_more = !report.only_first && self.hosts[place].granted > least;
            if has_more && self.leases.len() >= (leases_max / 2).max(1) {
                break;
            }
            let is_unsent = |segment| takes_held && !self.leases.contains_key(&segment);
            let first = first.take().filter(|one| self.is_free(*one) || is_unsent(*one));
            let first = first.filter(|segment| (*segment as usize) < self.holders.len());
            let free = match report.only_first {
                true => first,
                false => first.or_else(|| self.next_free()),
            };
            let may_take_held = takes_held && !report.only_first;
            let held = || self.next_held(id).filter(|_| may_take_held);
            let Some(segment) = free.or_else(held) else { break };
            self.leases.insert(segment, Lease { host: id, since: now });
            own.push(segment);
            self.hosts[place].granted += 1;
        }
        own
    }

    fn held_by(&self, id: P) -> impl Iterator<Item = u32> {
        self.leases.iter().filter(move |(_, lease)| lease.host == id).map(|(segment, _)| *segment)
    }

    fn is_free(&self, segment: u32) -> bool {
        self.holders.get(segment as usize) == Some(&0) && !self.leases.contains_key(&segment)
    }

    fn next_free(&mut self) -> Option<u32> {
        let free = (self.first_free..self.holders.len() as u32).find(|one| self.is_free(*one));
        self.first_free = free.unwrap_or(self.holders.len() as u32);
        free
    }

    /// A segment that other hosts have, and this one lacks.
    fn next_held(&self, id: P) -> Option<u32> {
        let present = &self.hosts[*self.places.get(&id)?].present;
        let lacks =
            |segment: &u32| !present.iter().any(|(start, end)| (*start..*end).contains(segment));
        (0..self.holders.len() as u32).filter(lacks).find(|one| !self.leases.contains_key(one))
    }

    /// Random other hosts.
    pub(super) fn choose(&self, id: P, hosts_max: usize, rng: &mut Rng) -> Vec<P> {
        let others = self.hosts.len() - usize::from(self.places.contains_key(&id));
        if others <= hosts_max {
            return self.hosts.iter().map(|host| host.id).filter(|other| *other != id).collect();
        }
        let mut chosen = Vec::new();
        while chosen.len() < hosts_max {
            let host = self.hosts[rng.index(self.hosts.len())].id;
            if host != id && !chosen.contains(&host) {
                chosen.push(host);
            }
        }
        chosen
    }

    /// The holder of the whole blob that sends it to the fewest hosts.
    pub(super) fn choose_holder(&mut self, id: P, rng: &mut Rng) -> Option<P> {
        // An asking host has no holder any more, for example because that one failed.
        self.end_transfer(id);
        let start = rng.index(self.hosts.len());
        let order = (start..self.hosts.len()).chain(0..start);
        let place = order
            .filter(|place| self.may_ask(id, *place))
            .min_by_key(|place| self.hosts[*place].transfers)?;
        if self.hosts[place].transfers >= TRANSFERS_PER_HOLDER_MAX {
            return None;
        }
        self.hosts[place].transfers += 1;
        let holder = self.hosts[place].id;
        if let Some(place) = self.places.get(&id) {
            self.hosts[*place].holder = Some(holder);
        }
        Some(holder)
    }

    /// Whether a host may be asked for the small blob by another one.
    fn may_ask(&self, id: P, place: usize) -> bool {
        let Host { id: holder, is_downloading, .. } = &self.hosts[place];
        let failed = self.places.get(&id).map_or(&[][..], |place| &self.hosts[*place].failed);
        !is_downloading
            && *holder != id
            && failed.len() < FAILED_HOLDERS_MAX
            && !failed.contains(holder)
    }

    /// Returns the holder from which the host was told to fetch.
    fn end_transfer(&mut self, id: P) -> Option<P> {
        let holder = self.hosts[*self.places.get(&id)?].holder.take()?;
        if let Some(place) = self.places.get(&holder) {
            let transfers = &mut self.hosts[*place].transfers;
            *transfers = transfers.saturating_sub(1);
        }
        Some(holder)
    }

    pub(super) fn remove(&mut self, id: P) {
        self.end_transfer(id);
        let Some(place) = self.places.remove(&id) else { return };
        let host = self.hosts.swap_remove(place);
        if let Some(moved) = self.hosts.get(place) {
            self.places.insert(moved.id, place);
        }
        self.count(&host.present, |holders| *holders -= 1);
        self.leases.retain(|_, lease| lease.host != id);
        self.first_free = 0;
    }

    /// Removes the hosts that are silent for too long.
    pub(super) fn sweep(&mut self, now: Instant) {
        if now.since(self.swept_at) < LEASE_TIME / 8 {
            return;
        }
        self.swept_at = now;
        let silent: Vec<P> =
            self.hosts.iter().filter(|host| host.expires_at <= now).map(|host| host.id).collect();
        silent.into_iter().for_each(|id| self.remove(id));
    }
}

/// Ranges in their order, without overlap, of segments that exist.
fn normal(ranges: &[(u32, u32)], segments: u32) -> Vec<(u32, u32)> {
    let mut sorted: Vec<_> =
        ranges.iter().map(|(start, end)| (*start, (*end).min(segments))).collect();
    sorted.retain(|(start, end)| start < end);
    sorted.sort_unstable();
    let mut normal: Vec<(u32, u32)> = Vec::new();
    for (start, end) in sorted {
        match normal.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => normal.push((start, end)),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many leases there are after many segments, each of which takes this time beside so many others.
    fn leases_after(segment_ms: impl Fn(u64) -> u64) -> usize {
        let mut pace = Pace { leases: FIRST_LEASES, segment_time: Duration::MAX };
        for _ in 0..100 {
            pace.note(Duration::from_millis(segment_ms(pace.leases as u64)));
            pace.leases = pace.leases.min(8);
        }
        pace.leases
    }

    #[test]
    fn a_slow_link_gets_fewer_leases_than_slow_connections() {
        assert_eq!(leases_after(|leases| 1_300 * leases), 3);
        assert_eq!(leases_after(|leases| 50 * leases), 8, "a fast link");
        assert_eq!(leases_after(|_| 4_000), 8, "slow connections");
        assert_eq!(
            leases_after(|leases| 4_000.max(1_000 * leases)),
            6,
            "slow connections and a link"
        );
    }
}
