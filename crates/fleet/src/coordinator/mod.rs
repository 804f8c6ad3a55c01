//! Decides which host fetches which segment of a blob from the registry, and which hosts exchange its
//! blocks. A state machine without I/O.
//!
//! **Without it**, 200 hosts that start one image of 1 GiB together fetch 200 GiB from the registry. On its
//! uplink of 1 Gbit/s that takes half an hour, and public registries limit the rate of requests long before. If
//! each host fetched random segments instead, and exchanged them, the registry would still send several copies:
//! in the first seconds no host knows what the others fetch.
//!
//! Each blob has one coordinator, the host that is closest to its digest in the fleet's DHT, so hosts need no
//! election. Each host that fetches the blob sends it a [`Report`] twice a second, and as soon as a segment is
//! fetched. The answer is an [`Assignment`]: leases of segments, other hosts to ask for blocks, and the progress
//! of the whole fleet.
//!
//! - **A lease** lets one host fetch one segment of 4 MiB. All hosts together have at most `leases_max` for a
//!   blob, four by default. They begin with two, and where one more
//!   lease makes each segment slower, they have at most three. A segment is free while no host has it and none leases it. A host takes the segment that its
//!   reader waits for, else the first free one. While a container starts, it takes no other one, and ends the
//!   lease as soon as it has the blocks that the start reads.
//! - **Leases go round**, because a host passes on what it fetches: leases at few hosts make their uplinks the
//!   limit of all. So a host that had more leases than a host that waits without a lease gets no further one while
//!   half of them are in use. In the first half second, each host gets at most one lease, since others may be about
//!   to report.
//! - **In numbers:** 1 GiB is 256 segments. The first two of 200 hosts get one each. When host 1 reports
//!   segment 0, the next host that reports gets segment 2, and so on to 255. Each answer also names up to eight
//!   hosts. So the registry sends one copy, and the blocks spread from the hosts that fetched them. A host that
//!   is alone has two leases after half a second, and four soon if they are not slower.
//! - **A host that is gone** keeps its lease for [`LEASE_TIME`], 1.8 s after its last report; then the segment is
//!   free. A host that reports late because it has too much work is not gone: it tells its lag, and four times
//!   the lag is added, 12 s at most ([`extended`]). A lease that it no longer names in `fetching` ends
//!   immediately.
//! - **A coordinator that is gone** loses nothing that matters. The next closest host gets the next reports, and
//!   takes over each lease that they name, the first report first. For a moment two hosts may fetch one segment:
//!   the answer to the second does not name it, so it stops.
//! - **Reports stay few:** a host without a lease waits 0.5 ms longer for each host that fetches the blob. Beyond
//!   1,000 hosts the coordinator gets 2,000 reports a second at most, and 4,000 hosts report every 2 s.
//! - **A small blob**, of one block, is sent as a whole. One host fetches it; the coordinator then names it, and
//!   each later holder, to at most four hosts at a time. So the number of holders grows fivefold with each round.
//!
//! The bounds are constants below: blobs, hosts of a blob, segments of a blob and of all. When there are too many
//! blobs or segments, the half of the blobs that was used least recently is forgotten; reports rebuild them. A
//! host beyond the limit of a blob gets no lease and is not named, and fetches from the hosts that it knows.

mod blob;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchfire_types::{Instant, Rng};

use blob::Blob;

/// How long a lease holds without a report. When its host is gone, another host fetches the segment after
/// this time.
pub const LEASE_TIME: Duration = Duration::from_millis(1800);
/// The time from one report to the next in a small fleet.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// A host without leases waits this much longer between reports for each host that fetches the blob.
const INTERVAL_PER_HOST: Duration = Duration::from_micros(500);
/// How long a host that has the whole blob is named without an announcement.
pub const ANNOUNCEMENT_TIME: Duration = Duration::from_secs(12 * 60);
/// Blobs that are coordinated. When the limit is reached, the one without a report for the longest time
/// is forgotten.
const BLOBS_MAX: usize = 100_000;
/// Segments of the largest blob: 4 TiB.
const SEGMENTS_MAX: u32 = 1 << 20;
/// Segments of all blobs. When the limit is reached, blobs without a report for the longest time are
/// forgotten.
const ALL_SEGMENTS_MAX: usize = 1 << 23;

/// The largest lag. A host that is later counts as gone.
pub const LAG_MAX: Duration = Duration::from_secs(3);
/// Timeouts are longer by this number of lags: a message waits at both ends, in several threads.
const LAGS: u32 = 4;

pub fn extended(timeout: Duration, lag: Duration) -> Duration {
    timeout + LAGS * lag.min(LAG_MAX)
}

/// The state of one host's download.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    pub segments: u32,
    /// The segments that the host has completely, as ranges from the first to behind the last.
    pub present: Vec<(u32, u32)>,
    /// The segments that the host fetches from the registry now.
    pub fetching: Vec<u32>,
    /// How many more segments the host would fetch.
    pub wanted_leases: u32,
    /// A segment to begin with, because a reader waits for it.
    pub first: Option<u32>,
    /// The host fetches no other segment: a container starts, and needs some blocks only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_first: bool,
    pub wanted_hosts: u32,
    /// The host needs a holder of the whole blob. Blobs of one block are sent as a whole.
    pub wants_holder: bool,
    /// The other hosts send nothing: the holder that was named last did not send the blob, or no host sends a
    /// block. The host may fetch segments that others have.
    pub is_stalled: bool,
    /// How often the host got something from the registry or from other hosts.
    pub arrivals: u64,
    /// How late the host runs, in milliseconds. A late host keeps its leases longer.
    pub lag_ms: u64,
}

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
    /// Segments of all blobs, or more: the segments of forgotten blobs are subtracted late.
    segments: usize,
    /// Leases of one blob at a time.
    leases_max: usize,
    rng: Rng,
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
        let leases = blob.lease(now, id, report, leases_max);
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

    pub fn blobs(&self) -> usize {
        self.blobs.len()
    }

    /// Makes room for a blob with this number of segments.
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

    /// The leases of host 1, half a second after its first report, if it is alone.
    fn first_leases(coordinator: &mut Coordinator<&'static str, u32>, report: &Report) -> Vec<u32> {
        let first = coordinator.handle_report(Instant::ZERO, &"a", 1, report).leases;
        assert!(first.len() <= 1, "{first:?}");
        let now = Report { fetching: first, ..report.clone() };
        coordinator.handle_report(Instant::ZERO + REPORT_INTERVAL, &"a", 1, &now).leases
    }

    #[test]
    fn hosts_that_report_together_get_a_lease_each_in_turn() {
        let mut coordinator = coordinator();
        let mut ask =
            |id, report: &Report| coordinator.handle_report(Instant::ZERO, &"a", id, report).leases;
        for id in 1..=2 {
            assert_eq!(ask(id, &report(100)), [id - 1]);
        }
        for id in 3..=5 {
            assert!(ask(id, &report(100)).is_empty(), "two leases are in use");
        }
        // Host 1 has its segment, and soon, so there is a third lease. The next ones are for hosts that had none.
        let done = Report { present: vec![(0, 1)], ..report(100) };
        assert!(ask(1, &done).is_empty());
        assert_eq!((ask(3, &report(100)), ask(4, &report(100))), (vec![2], vec![3]));
        // A host that takes no leases keeps nobody waiting.
        ask(6, &Report { wanted_leases: 0, ..report(100) });
        let done = Report { present: vec![(1, 2)], ..report(100) };
        assert!(ask(2, &done).is_empty());
        assert_eq!((ask(5, &report(100)), ask(2, &done)), (vec![4], vec![5]));
    }

    #[test]
    fn hosts_that_hold_a_lease_keep_no_other_host_waiting() {
        let mut coordinator = coordinator();
        let mut ask =
            |id, report: &Report| coordinator.handle_report(Instant::ZERO, &"a", id, report).leases;
        let done = |present| Report { present, ..report(100) };
        assert_eq!((ask(1, &report(100)), ask(1, &done(vec![(0, 1)]))), (vec![0], vec![1]));
        assert_eq!(ask(1, &done(vec![(0, 2)])), [2]);
        // Hosts 2 and 3 are slow, and have half of the leases.
        assert_eq!((ask(2, &report(100)), ask(3, &report(100))), (vec![3], vec![4]));
        assert_eq!(ask(1, &done(vec![(0, 3)])), [5]);
        assert_eq!(ask(1, &done(vec![(0, 3), (5, 6)])), [6]);
    }

    #[test]
    fn the_only_lease_is_granted_while_another_host_waits() {
        let mut coordinator: Coordinator<&'static str, u32> = Coordinator::new(1, 1);
        let mut ask =
            |id, report: &Report| coordinator.handle_report(Instant::ZERO, &"a", id, report).leases;
        assert_eq!(ask(1, &report(100)), [0]);
        assert!(ask(2, &report(100)).is_empty());
        assert_eq!(ask(1, &Report { present: vec![(0, 1)], ..report(100) }), [1]);
    }

    #[test]
    fn one_host_gets_all_leases_and_several_share_them() {
        let mut coordinator = coordinator();
        assert_eq!(first_leases(&mut coordinator, &report(10)), [0, 1]);
        let at = Instant::ZERO + REPORT_INTERVAL;
        let now = Report { present: vec![(0, 1)], fetching: vec![1], ..report(10) };
        assert_eq!(coordinator.handle_report(at, &"a", 1, &now).leases, [1, 2, 3]);
        let waiting = coordinator.handle_report(at, &"a", 2, &report(10));
        assert_eq!((waiting.leases, waiting.hosts), (vec![], vec![1]));
        // Host 1 has another segment. Its share is two of four now, and host 2 gets the others.
        let now = Report { present: vec![(0, 2)], fetching: vec![2, 3], ..report(10) };
        assert_eq!(coordinator.handle_report(at, &"a", 1, &now).leases, [2, 3]);
        assert_eq!(coordinator.handle_report(at, &"a", 2, &report(10)).leases, [4, 5]);
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
        let later = Instant::ZERO + REPORT_INTERVAL;
        assert_eq!(coordinator.handle_report(later, &"a", 2, &report(2)).leases, [0, 1]);
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
        assert_eq!(coordinator.handle_report(Instant::ZERO, &"a", 1, &wanted).leases, [7]);
    }

    #[test]
    fn a_start_leases_only_what_it_reads() {
        let mut coordinator = coordinator();
        let mut ask = |id, first, fetching: &[u32]| {
            let fetching = fetching.to_vec();
            let report = Report { first, fetching, only_first: true, ..report(9) };
            let mut leases = coordinator.handle_report(Instant::ZERO, &"a", id, &report).leases;
            leases.sort_unstable();
            leases
        };
        assert_eq!(ask(1, Some(7), &[]), [7]);
        assert_eq!(ask(2, Some(7), &[]), []);
        assert_eq!(ask(2, None, &[]), []);
        // Its share of four is two, but these leases are short.
        assert_eq!((ask(1, Some(2), &[7]), ask(1, Some(3), &[2, 7])), (vec![2, 7], vec![2, 3, 7]));
        assert_eq!((ask(1, None, &[]), ask(2, Some(7), &[])), (vec![], vec![7]));
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
    fn a_holder_that_sends_nothing_is_replaced_and_the_last_one_by_the_registry() {
        let mut coordinator = coordinator();
        coordinator.handle_announcement(Instant::ZERO, &"a", 0);
        coordinator.handle_announcement(Instant::ZERO, &"a", 1);
        let mut ask = |id, is_stalled| {
            let report = Report { wants_holder: true, wanted_leases: 1, is_stalled, ..report(1) };
            let assignment = coordinator.handle_report(Instant::ZERO, &"a", id, &report);
            (assignment.holder, assignment.leases)
        };
        let (first, _) = ask(7, false);
        let (second, leases) = ask(7, true);
        assert!(second.is_some() && second != first && leases.is_empty());
        assert_eq!(ask(7, true), (None, vec![0]));
        assert_eq!(ask(8, false).1, [], "the holders are named to others still");
    }

    #[test]
    fn a_stalled_host_fetches_segments_that_others_have() {
        let mut coordinator = coordinator();
        coordinator.handle_announcement(Instant::ZERO, &"a", 0);
        let present = vec![(0, 1)];
        let mut ask = |id, is_stalled| {
            let report = Report { present: present.clone(), is_stalled, ..report(4) };
            let later = Instant::ZERO + REPORT_INTERVAL;
            coordinator.handle_report(later, &"a", id, &report).leases
        };
        assert_eq!((ask(7, false), ask(7, true), ask(8, true)), (vec![], vec![1, 2, 3], vec![]));
    }

    #[test]
    fn a_stalled_host_that_starts_fetches_no_segment_that_the_start_does_not_need() {
        let mut coordinator = coordinator();
        coordinator.handle_announcement(Instant::ZERO, &"a", 0);
        let mut ask = |first| {
            let report = Report { first, only_first: true, is_stalled: true, ..report(4) };
            let later = Instant::ZERO + REPORT_INTERVAL;
            coordinator.handle_report(later, &"a", 7, &report).leases
        };
        assert_eq!((ask(None), ask(Some(2))), (vec![], vec![2]));
    }

    #[test]
    fn an_announced_holder_has_all_segments_of_a_blob_whose_size_is_learned_later() {
        let mut coordinator = coordinator();
        coordinator.handle_announcement(Instant::ZERO, &"a", 0);
        let assignment = coordinator.handle_report(Instant::ZERO, &"a", 1, &report(20));
        assert_eq!((assignment.leases, assignment.hosts), (vec![], vec![0]));
        let late = Instant::ZERO + ANNOUNCEMENT_TIME + SECOND;
        assert_eq!(coordinator.handle_report(late, &"a", 1, &report(20)).leases, [0, 1]);
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
        assert_eq!(coordinator.handle_report(Instant::ZERO, &"a", 1, &bad).leases, [0]);
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
