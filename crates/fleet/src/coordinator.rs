//! Decides which host fetches which segment of a blob from the registry, and which hosts exchange its
//! blocks. A state machine without I/O.
//!
//! Each blob has one coordinator: the host that is closest to the blob's digest in the fleet's DHT. All
//! hosts that fetch the blob report to it. Its state is soft: the next reports rebuild it at another host
//! when the coordinator is gone.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchfire_types::{Instant, Rng};

use crate::lag::extended;

/// How long a lease holds without a report. A host that is gone delays its segment for so long.
pub const LEASE_TIME: Duration = Duration::from_millis(1800);
/// The time from one report to the next in a small fleet.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// A host without leases reports so much less often for each host that fetches the blob.
const INTERVAL_PER_HOST: Duration = Duration::from_micros(500);
/// How long a host that has the whole blob is named without an announcement.
pub const ANNOUNCEMENT_TIME: Duration = Duration::from_secs(12 * 60);
/// Blobs that are coordinated. When the limit is reached, the one without a report for the longest time
/// is forgotten.
const BLOBS_MAX: usize = 100_000;
/// Hosts that are known for a blob. When the limit is reached, further ones get no leases, and are not
/// named to others.
const HOSTS_MAX: usize = 16_384;
/// Hosts that fetch a small blob from one holder at a time. Further ones wait.
const TRANSFERS_PER_HOLDER_MAX: u32 = 4;
/// Segments of the largest blob: 16 TiB.
const SEGMENTS_MAX: u32 = 1 << 20;
/// Segments of all blobs. When the limit is reached, blobs without a report for the longest time are
/// forgotten.
const ALL_SEGMENTS_MAX: usize = 1 << 23;

/// The state of one host's download.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The number of segments of the blob.
    pub segments: u32,
    /// The segments that the host has completely, as ranges from the first to behind the last.
    pub present: Vec<(u32, u32)>,
    /// The segments that the host fetches from the registry now.
    pub fetching: Vec<u32>,
    /// How many more segments the host would fetch.
    pub wanted_leases: u32,
    /// A segment to begin with, because a reader waits for it.
    pub first: Option<u32>,
    /// How many hosts to name.
    pub wanted_hosts: u32,
    /// The host needs a holder of the whole blob. Blobs of one block are sent as a whole.
    pub wants_holder: bool,
    /// How often the host got something from the registry or from other hosts.
    pub arrivals: u64,
    /// How late the host runs, in milliseconds. A late host keeps its leases longer.
    pub lag_ms: u64,
}

/// The answer to a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment<P> {
    /// All segments that the host fetches from the registry from now on.
    pub leases: Vec<u32>,
    /// Other hosts that fetch or have the blob.
    pub hosts: Vec<P>,
    /// A host that has the whole blob.
    pub holder: Option<P>,
    /// Grows while any host gets something: the registry or a holder sends, however slowly.
    pub progress: u64,
    /// When to report again, at the latest.
    pub report_within: Duration,
}

/// The blobs that one host coordinates, for hosts with ids `P` and blobs with names `K`.
#[derive(Debug)]
pub struct Coordinator<K, P> {
    blobs: BTreeMap<K, Blob<P>>,
    /// Segments of all blobs, or more: those of forgotten blobs are subtracted late.
    segments: usize,
    /// Leases of one blob at a time.
    leases_max: usize,
    rng: Rng,
}

#[derive(Debug)]
struct Blob<P> {
    hosts: Vec<Host<P>>,
    places: BTreeMap<P, usize>,
    /// How many hosts have each segment.
    holders: Vec<u32>,
    leases: BTreeMap<u32, P>,
    /// Reports of hosts that had got something since the one before.
    progress: u64,
    /// No segment before it is free, unless it was freed since.
    first_free: u32,
    swept_at: Instant,
    used_at: Instant,
}

#[derive(Debug)]
struct Host<P> {
    id: P,
    expires_at: Instant,
    present: Vec<(u32, u32)>,
    arrivals: u64,
    is_downloading: bool,
    /// Hosts that fetch the small blob from this one now.
    transfers: u32,
    /// The holder that this host was told to fetch from.
    holder: Option<P>,
}

impl<K: Clone + Ord, P: Copy + Ord + Debug> Coordinator<K, P> {
    /// A coordinator without blobs. `seed` chooses the hosts that are named.
    pub fn new(leases_max: usize, seed: u64) -> Self {
        Coordinator {
            blobs: BTreeMap::new(),
            segments: 0,
            leases_max: leases_max.max(1),
            rng: Rng::from_seed(seed),
        }
    }

    /// A host reports its download.
    pub fn handle_report(
        &mut self,
        now: Instant,
        key: &K,
        id: P,
        report: &Report,
    ) -> Assignment<P> {
        let segments = report.segments.min(SEGMENTS_MAX);
        self.make_room(key, segments);
        let leases_max = self.leases_max;
        let blob = self.blobs.entry(key.clone()).or_insert_with(|| Blob::new(now));
        blob.sweep(now);
        blob.used_at = now;
        blob.set_segments(segments);
        if !blob.update(now, id, report) {
            let report_within = REPORT_INTERVAL;
            let (leases, hosts, holder, progress) = (Vec::new(), Vec::new(), None, blob.progress);
            return Assignment { leases, hosts, holder, progress, report_within };
        }
        let leases = blob.lease(id, report, leases_max);
        let downloading = blob.hosts.iter().filter(|host| host.is_downloading).count();
        let downloading = u32::try_from(downloading).unwrap_or(u32::MAX);
        let report_within = match leases.is_empty() {
            true => REPORT_INTERVAL.max(INTERVAL_PER_HOST * downloading),
            false => REPORT_INTERVAL,
        };
        let lag = Duration::from_millis(report.lag_ms);
        blob.extend(now, id, 3 * report_within, extended(LEASE_TIME, lag));
        let hosts = blob.choose(id, report.wanted_hosts as usize, &mut self.rng);
        let holder = report.wants_holder.then(|| blob.choose_holder(id, &mut self.rng)).flatten();
        Assignment { leases, hosts, holder, progress: blob.progress, report_within }
    }

    /// A host has the whole blob, and will for some time.
    pub fn handle_announcement(&mut self, now: Instant, key: &K, id: P) {
        self.make_room(key, 1);
        let blob = self.blobs.entry(key.clone()).or_insert_with(|| Blob::new(now));
        blob.sweep(now);
        blob.used_at = now;
        blob.set_segments(1);
        let segments = blob.holders.len() as u32;
        let report = Report { segments, present: vec![(0, segments)], ..Report::default() };
        if blob.update(now, id, &report) {
            blob.extend(now, id, ANNOUNCEMENT_TIME, LEASE_TIME);
        }
    }

    /// A host has left, or fetches the blob no more.
    pub fn handle_left(&mut self, key: &K, id: P) {
        if let Some(blob) = self.blobs.get_mut(key) {
            blob.remove(id);
            if blob.hosts.is_empty() {
                self.blobs.remove(key);
            }
        }
    }

    /// Whether any host is known for a blob.
    pub fn has(&self, key: &K) -> bool {
        self.blobs.contains_key(key)
    }

    /// The hosts that have a whole blob, the most recently announced first.
    pub fn holders(&self, key: &K, hosts_max: usize) -> Vec<P> {
        let Some(blob) = self.blobs.get(key) else { return Vec::new() };
        let segments = blob.holders.len() as u32;
        let mut holders: Vec<_> =
            blob.hosts.iter().filter(|host| host.present == [(0, segments)]).collect();
        holders.sort_by_key(|host| std::cmp::Reverse(host.expires_at));
        holders.into_iter().take(hosts_max).map(|host| host.id).collect()
    }

    /// The number of blobs.
    pub fn blobs(&self) -> usize {
        self.blobs.len()
    }

    /// Makes room for a blob of so many segments.
    fn make_room(&mut self, key: &K, segments: u32) {
        let known = self.blobs.get(key).map_or(0, |blob| blob.holders.len());
        let is_new = !self.blobs.contains_key(key);
        self.segments += (segments as usize).saturating_sub(known);
        let has_room = self.segments <= ALL_SEGMENTS_MAX;
        if self.blobs.is_empty() || (has_room && (!is_new || self.blobs.len() < BLOBS_MAX)) {
            return;
        }
        // A rare pass over all, which makes room for many.
        let mut used: Vec<Instant> = self.blobs.values().map(|blob| blob.used_at).collect();
        let (_, median, _) = used.select_nth_unstable(self.blobs.len() / 2);
        let median = *median;
        self.blobs.retain(|other, blob| blob.used_at > median || other == key);
        let kept = self.blobs.values().map(|blob| blob.holders.len()).sum::<usize>();
        self.segments = kept + segments as usize;
    }
}

impl<P: Copy + Ord + Debug> Blob<P> {
    fn new(now: Instant) -> Self {
        Blob {
            hosts: Vec::new(),
            places: BTreeMap::new(),
            holders: Vec::new(),
            leases: BTreeMap::new(),
            progress: 0,
            first_free: 0,
            swept_at: now,
            used_at: now,
        }
    }

    /// The number of segments is known from the first report. An announcement alone names none, so
    /// its holders have one segment until then.
    fn set_segments(&mut self, segments: u32) {
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
    fn update(&mut self, now: Instant, id: P, report: &Report) -> bool {
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
                });
                self.hosts.len() - 1
            }
        };
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
        if is_complete {
            self.end_transfer(id);
        }
        let fetching = &report.fetching;
        self.leases.retain(|segment, holder| *holder != id || fetching.contains(segment));
        for segment in fetching.iter().filter(|segment| **segment < segments) {
            if self.holders[*segment as usize] == 0 {
                self.leases.entry(*segment).or_insert(id);
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
    fn extend(&mut self, now: Instant, id: P, time: Duration, lease_time: Duration) {
        let Some(place) = self.places.get(&id) else { return };
        let has_lease = self.leases.values().any(|holder| *holder == id);
        let host = &mut self.hosts[*place];
        host.expires_at = match (host.is_downloading, has_lease) {
            (true, true) => now + lease_time,
            (true, false) => now + time.max(lease_time),
            (false, _) => host.expires_at.max(now + time.max(lease_time)),
        };
    }

    /// Grants leases to a host. Returns all that it has.
    fn lease(&mut self, id: P, report: &Report, leases_max: usize) -> Vec<u32> {
        let downloading = self.hosts.iter().filter(|host| host.is_downloading).count();
        let own_max = (leases_max / downloading.max(1)).max(1);
        let mut own: Vec<u32> = self.held_by(id).collect();
        let wanted = own.len() + report.wanted_leases as usize;
        let mut first = report.first;
        while own.len() < wanted.min(own_max) && self.leases.len() < leases_max {
            let first = first.take().filter(|segment| self.is_free(*segment));
            let Some(segment) = first.or_else(|| self.next_free()) else { break };
            self.leases.insert(segment, id);
            own.push(segment);
        }
        own
    }

    fn held_by(&self, id: P) -> impl Iterator<Item = u32> {
        self.leases.iter().filter(move |(_, holder)| **holder == id).map(|(segment, _)| *segment)
    }

    fn is_free(&self, segment: u32) -> bool {
        self.holders.get(segment as usize) == Some(&0) && !self.leases.contains_key(&segment)
    }

    fn next_free(&mut self) -> Option<u32> {
        let free = (self.first_free..self.holders.len() as u32).find(|one| self.is_free(*one));
        self.first_free = free.unwrap_or(self.holders.len() as u32);
        free
    }

    /// Random other hosts.
    fn choose(&self, id: P, hosts_max: usize, rng: &mut Rng) -> Vec<P> {
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
    fn choose_holder(&mut self, id: P, rng: &mut Rng) -> Option<P> {
        // An asking host has no holder any more, for example because that one failed.
        self.end_transfer(id);
        let start = rng.index(self.hosts.len());
        let order = (start..self.hosts.len()).chain(0..start);
        let place = order
            .filter(|place| !self.hosts[*place].is_downloading && self.hosts[*place].id != id)
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

    fn end_transfer(&mut self, id: P) {
        let Some(place) = self.places.get(&id) else { return };
        let Some(holder) = self.hosts[*place].holder.take() else { return };
        if let Some(place) = self.places.get(&holder) {
            let transfers = &mut self.hosts[*place].transfers;
            *transfers = transfers.saturating_sub(1);
        }
    }

    fn remove(&mut self, id: P) {
        self.end_transfer(id);
        let Some(place) = self.places.remove(&id) else { return };
        let host = self.hosts.swap_remove(place);
        if let Some(moved) = self.hosts.get(place) {
            self.places.insert(moved.id, place);
        }
        self.count(&host.present, |holders| *holders -= 1);
        self.leases.retain(|_, holder| *holder != id);
        self.first_free = 0;
    }

    /// Removes the hosts that are silent for too long.
    fn sweep(&mut self, now: Instant) {
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

    const SECOND: Duration = Duration::from_secs(1);

    fn coordinator() -> Coordinator<&'static str, u32> {
        Coordinator::new(4, 1)
    }

    fn report(segments: u32) -> Report {
        Report { segments, wanted_leases: 4, wanted_hosts: 8, ..Report::default() }
    }

    #[test]
    fn one_host_gets_all_leases_and_several_share_them() {
        let mut coordinator = coordinator();
        let at = Instant::ZERO;
        assert_eq!(coordinator.handle_report(at, &"a", 1, &report(10)).leases, [0, 1, 2, 3]);
        let waiting = coordinator.handle_report(at, &"a", 2, &report(10));
        assert_eq!((waiting.leases, waiting.hosts), (vec![], vec![1]));
        // Host 1 has a segment. Its share is two of four now, and host 2 gets the free one.
        let now = Report { present: vec![(0, 1)], fetching: vec![1, 2, 3], ..report(10) };
        assert_eq!(coordinator.handle_report(at, &"a", 1, &now).leases, [1, 2, 3]);
        assert_eq!(coordinator.handle_report(at, &"a", 2, &report(10)).leases, [4]);
    }

    #[test]
    fn a_silent_host_loses_its_leases_within_two_seconds() {
        let mut coordinator = coordinator();
        coordinator.handle_report(Instant::ZERO, &"a", 1, &report(4));
        let mut at = Instant::ZERO;
        let taken_over = loop {
            at += SECOND / 10;
            if !coordinator.handle_report(at, &"a", 2, &report(4)).leases.is_empty() {
                break at;
            }
        };
        assert!(taken_over.since(Instant::ZERO) <= 2 * SECOND, "{taken_over:?}");
    }

    #[test]
    fn a_segment_that_only_a_lost_host_had_is_fetched_again() {
        let mut coordinator = coordinator();
        let has = Report { present: vec![(0, 2)], wanted_leases: 0, ..report(2) };
        coordinator.handle_report(Instant::ZERO, &"a", 1, &has);
        assert!(coordinator.handle_report(Instant::ZERO, &"a", 2, &report(2)).leases.is_empty());
        coordinator.handle_left(&"a", 1);
        assert_eq!(coordinator.handle_report(Instant::ZERO, &"a", 2, &report(2)).leases, [0, 1]);
    }

    #[test]
    fn another_coordinator_learns_the_leases_from_the_reports() {
        let mut next = coordinator();
        let fetching = Report { fetching: vec![0, 1], wanted_leases: 0, ..report(4) };
        assert_eq!(next.handle_report(Instant::ZERO, &"a", 1, &fetching).leases, [0, 1]);
        let claims = Report { fetching: vec![1, 2], wanted_leases: 0, ..report(4) };
        assert_eq!(next.handle_report(Instant::ZERO, &"a", 2, &claims).leases, [2]);
    }

    #[test]
    fn hosts_hear_that_another_one_gets_bytes() {
        let mut coordinator = coordinator();
        let mut progress = |id, arrivals| {
            let report = Report { arrivals, ..report(4) };
            coordinator.handle_report(Instant::ZERO, &"a", id, &report).progress
        };
        assert_eq!((progress(1, 0), progress(2, 0)), (0, 0));
        assert_eq!((progress(1, 5), progress(2, 0), progress(1, 5), progress(2, 0)), (1, 1, 1, 1));
        assert_eq!((progress(1, 6), progress(2, 0)), (2, 2));
    }

    #[test]
    fn a_reader_decides_which_segment_is_first() {
        let mut coordinator = coordinator();
        let wanted = Report { first: Some(7), wanted_leases: 2, ..report(9) };
        assert_eq!(coordinator.handle_report(Instant::ZERO, &"a", 1, &wanted).leases, [7, 0]);
    }

    #[test]
    fn a_holder_sends_a_small_blob_to_few_hosts_at_a_time() {
        let mut coordinator = coordinator();
        coordinator.handle_announcement(Instant::ZERO, &"a", 0);
        let small = |present: Vec<(u32, u32)>| {
            let wants_holder = present.is_empty();
            Report { segments: 1, present, wants_holder, ..Report::default() }
        };
        let mut ask = |id, present| {
            coordinator.handle_report(Instant::ZERO, &"a", id, &small(present)).holder
        };
        for id in 1..=4 {
            assert_eq!(ask(id, vec![]), Some(0));
        }
        assert_eq!(ask(5, vec![]), None);
        ask(1, vec![(0, 1)]);
        // Two holders share the rest.
        let found: Vec<_> = (5..10).map(|id| ask(id, vec![])).collect();
        assert_eq!(found.iter().filter(|one| **one == Some(0)).count(), 1);
        assert_eq!(found.iter().filter(|one| **one == Some(1)).count(), 4);
        assert_eq!(coordinator.holders(&"a", 10).len(), 2);
    }

    #[test]
    fn an_announced_holder_has_all_segments_of_a_blob_whose_size_is_learned_later() {
        let mut coordinator = coordinator();
        coordinator.handle_announcement(Instant::ZERO, &"a", 0);
        let assignment = coordinator.handle_report(Instant::ZERO, &"a", 1, &report(20));
        assert_eq!((assignment.leases, assignment.hosts), (vec![], vec![0]));
        let late = Instant::ZERO + ANNOUNCEMENT_TIME + SECOND;
        assert_eq!(coordinator.handle_report(late, &"a", 1, &report(20)).leases.len(), 4);
    }

    #[test]
    fn reports_with_wrong_segments_change_nothing() {
        let mut coordinator = coordinator();
        let bad = Report {
            segments: 4,
            present: vec![(9, 3), (2, u32::MAX), (3, 4)],
            fetching: vec![u32::MAX, 9],
            first: Some(u32::MAX),
            wanted_leases: u32::MAX,
            wanted_hosts: u32::MAX,
            ..Report::default()
        };
        assert_eq!(coordinator.handle_report(Instant::ZERO, &"a", 1, &bad).leases, [0, 1]);
        let huge = Report { segments: u32::MAX, ..Report::default() };
        coordinator.handle_report(Instant::ZERO, &"b", 1, &huge);
        coordinator.handle_left(&"b", 1);
        coordinator.handle_left(&"b", 2);
        assert_eq!(coordinator.blobs(), 1);
    }

    #[test]
    fn blobs_with_many_segments_replace_older_ones() {
        let mut coordinator: Coordinator<u32, u32> = Coordinator::new(4, 1);
        let huge = Report { segments: SEGMENTS_MAX, ..Report::default() };
        for key in 0..100 {
            let at = Instant::ZERO + SECOND * key;
            coordinator.handle_report(at, &key, 1, &huge);
            assert!(coordinator.blobs() <= ALL_SEGMENTS_MAX / SEGMENTS_MAX as usize);
        }
        assert!(coordinator.has(&99) && !coordinator.has(&0));
    }

    #[test]
    fn many_hosts_report_less_often() {
        let mut coordinator = coordinator();
        let waiting = Report { wanted_leases: 0, ..report(4) };
        let within: Vec<_> = (0..4000)
            .map(|id| coordinator.handle_report(Instant::ZERO, &"a", id, &waiting).report_within)
            .collect();
        assert_eq!((within[0], within[3999]), (SECOND / 2, SECOND * 2));
    }
}
