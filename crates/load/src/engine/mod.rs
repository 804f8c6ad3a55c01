//! All users of one process: a slab of small records over one epoll, in one thread.

mod addresses;
mod answer;
mod arrive;
mod beside;
mod files;
mod flow;
mod message;
mod page;
mod receive;
mod reconnect;
mod responses;
mod script;
mod secure;
mod send;
mod sources;
mod sweep;
mod timer;
mod user;

use std::iter::Peekable;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use slab::Slab;
use watchfire_types::{Instant, Rng};

use crate::arrivals::{ArrivalShare, Arrivals};
use crate::clock::{Clock, cpu_time, monotonic};
use crate::open_files::make_room_for_files;
use crate::order;
use crate::sampling::seed_for;
use crate::scenario::{Mark, Scenario, TextContext};
use crate::tally::{Delta, Tally};

use addresses::Addresses;
use files::LinkCache;
use flow::Meeting;
use sources::Sources;
use sweep::SWEEP_PERIOD;
use timer::{TIMER, Timer, Wake, Wakes};
use user::{NEVER, User, Waiting};

/// Bytes read from a socket in one call; all users share the buffer.
const READ_BYTES: usize = 64 << 10;
/// Events read from epoll in one call.
const EVENTS_MAX: usize = 256;
/// The most work of each kind in one turn of the event loop. A turn takes a fraction of a
/// millisecond, so that the next due user is not late.
const WAKES_PER_TURN: usize = 16;
const EVENTS_PER_TURN: usize = 16;

/// The users of the load that belong to this engine: every `count`-th, beginning with `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Share {
    pub(crate) index: usize,
    pub(crate) count: usize,
}

impl Share {
    /// The part of a number that belongs to this engine.
    fn of(self, all: u64) -> u64 {
        let (index, count) = (self.index as u64, self.count as u64);
        all / count + u64::from(index < all % count)
    }
}

/// A flag that ends a load early. All clones share it.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Stops the load. Active users count as cut off.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Number of users that a broadcast should reach.
#[derive(Clone, Copy, Default)]
struct Audience {
    now: u64,
    /// The smallest number in this second.
    fewest: u64,
}

pub(crate) struct Engine<'a> {
    scenario: &'a Scenario,
    users_max: u64,
    opening_max: u64,
    /// How many connections await their first answer.
    opening: u64,
    clock: Clock,
    epoll: OwnedFd,
    users: Slab<User>,
    /// How many of these records are polls beside the steps of another one.
    polls_beside: u64,
    users_peak: u64,
    connected: u64,
    connected_peak: u64,
    wakes: Wakes,
    arrivals: Peekable<ArrivalShare<'a>>,
    sources: Sources,
    addresses: Addresses,
    read_buffer: Vec<u8>,
    /// Buffers for encoding messages and frames.
    message_buffer: Vec<u8>,
    frame_buffer: Vec<u8>,
    tally: Tally,
    audiences: Vec<Audience>,
    rng: Rng,
    timer: Timer,
    /// Events from epoll, and how many of them were handled.
    events: Vec<epoll::Event>,
    events_seen: usize,
    /// The next slot to check for timeouts, and when the next check begins.
    swept: Option<usize>,
    sweep_at: Instant,
    /// After the end of the load: idle users before this slot have been disconnected.
    closed_before: Option<usize>,
    share: Share,
    /// How many rows of each file were taken.
    rows_taken: Vec<u64>,
    meeting: Meeting,
    links: LinkCache,
    /// How many users load a page from others.
    pages_loading: u64,
    tls_client: Option<Arc<rustls::ClientConfig>>,
    /// The phase that users arrive in, and how much later than planned its users are due, because
    /// phases have waited for their users.
    phase: usize,
    delay: Duration,
    /// Whether a session has ended the load.
    is_aborted: bool,
    resident_first_bytes: u64,
    /// Whether users send every message back, see [`crate::worker::echo`].
    pub(crate) echoes: bool,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(
        scenario: &'a Scenario,
        share: Share,
        clock: Clock,
    ) -> std::io::Result<Engine<'a>> {
        let arrivals = Arrivals::new(&scenario.phases, scenario.seed);
        let block = scenario.block(share.count);
        let arrivals = arrivals.share(share.index, share.count, block, &scenario.fixed_arrivals);
        let has_tls = scenario.targets.iter().any(|target| target.is_tls);
        let tls_client = has_tls.then(|| scenario.tls.client().map_err(std::io::Error::other));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = Timer::new(&epoll)?;
        make_room_for_files(&epoll, share.of(scenario.files_at_once_max()));
        let mut tally = Tally::new(scenario.steps.len());
        if scenario.recovered.is_some() {
            // Results have these also when they are 0.
            order::COUNTERS.iter().for_each(|name| tally.count_many(name, 0));
        }
        Ok(Engine {
            scenario,
            users_max: share.of(scenario.users_max),
            // A share of zero would never let a user arrive.
            opening_max: share.of(scenario.opening_max).max(1),
            opening: 0,
            clock,
            epoll,
            users: Slab::new(),
            polls_beside: 0,
            users_peak: 0,
            connected: 0,
            connected_peak: 0,
            wakes: Wakes::default(),
            arrivals: arrivals.peekable(),
            sources: Sources::new(scenario, share),
            addresses: Addresses::new(&scenario.targets),
            read_buffer: vec![0; READ_BYTES],
            message_buffer: Vec::new(),
            frame_buffer: Vec::new(),
            tally,
            audiences: vec![Audience::default(); scenario.audiences.count],
            rng: Rng::from_seed(seed_for(scenario.seed, share.index as u64, u64::MAX)),
            timer,
            events: Vec::with_capacity(EVENTS_MAX),
            events_seen: 0,
            swept: None,
            sweep_at: Instant::ZERO + SWEEP_PERIOD,
            closed_before: None,
            share,
            rows_taken: vec![0; scenario.rows.len()],
            meeting: Meeting::default(),
            links: LinkCache::default(),
            pages_loading: 0,
            tls_client: tls_client.transpose()?,
            phase: 0,
            delay: Duration::ZERO,
            is_aborted: false,
            resident_first_bytes: resident_bytes(),
            echoes: false,
        })
    }

    /// Runs the load to its end, or until it is stopped. `report` receives the results every
    /// second; it returns `false` to end the load.
    pub(crate) fn run(
        mut self,
        stop: &StopFlag,
        mut report: impl FnMut(Delta) -> bool,
    ) -> std::io::Result<()> {
        self.clock.wait_for_begin();
        let mut second = 0;
        loop {
            let now = self.clock.now();
            let planned = Instant::ZERO + self.scenario.duration();
            let over_at = planned + self.delay;
            // Phases that wait for their users do not make the whole load longer.
            let cut_at = planned + self.scenario.wind_down;
            let is_cut = now >= cut_at || stop.is_set() || self.is_aborted;
            if is_cut || (self.arrivals.peek().is_none() && self.users.is_empty() && now >= over_at)
            {
                if !stop.is_set() {
                    self.measure_unanswered(over_at);
                }
                self.tally.counts.cut_off += self.users_now();
                self.meeting = Meeting::default();
                self.users.clear();
                (self.polls_beside, self.pages_loading) = (0, 0);
                (self.connected, self.opening) = (0, 0);
                let last = self.delta(second, true);
                report(last);
                return Ok(());
            }
            let second_ends_at = Instant::from_nanos((u64::from(second) + 1) * 1_000_000_000);
            if now >= second_ends_at {
                let delta = self.delta(second, false);
                if !report(delta) {
                    return Ok(());
                }
                // A second that was skipped has no results.
                second = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
                continue;
            }
            self.sweep(now);
            if now >= over_at {
                self.close_idle();
            }
            self.start_due();
            self.wake_due();
            self.serve_events();
            let mut next = second_ends_at.min(self.sweep_at).min(cut_at);
            if now < over_at {
                next = next.min(over_at);
            }
            next = next.min(self.wakes.next_at().unwrap_or(next));
            if self.opening < self.opening_max {
                next = next.min(self.next_arrival_at().unwrap_or(next));
            }
            if self.events_seen == self.events.len() {
                self.poll((!self.is_searching()).then_some(next))?;
            }
        }
    }

    fn users_now(&self) -> u64 {
        self.users.len() as u64 - self.polls_beside
    }

    fn delta(&mut self, second: u32, is_last: bool) -> Delta {
        let mut delta = self.tally.take(&self.scenario.steps);
        delta.second = second;
        delta.is_last = is_last;
        delta.is_aborted = self.is_aborted;
        let users = self.users_now();
        delta.users = std::mem::replace(&mut self.users_peak, users);
        delta.connected = std::mem::replace(&mut self.connected_peak, self.connected);
        delta.audiences = self.audiences.iter().map(|audience| audience.fewest).collect();
        self.audiences.iter_mut().for_each(|audience| audience.fewest = audience.now);
        delta.cpu = cpu_time();
        delta.resident_bytes = resident_bytes();
        delta.resident_first_bytes = self.resident_first_bytes;
        delta
    }

    /// Waits for events until `next`; `None` does not wait.
    fn poll(&mut self, next: Option<Instant>) -> std::io::Result<()> {
        let next = next.filter(|next| *next > self.clock.now());
        let no_time = Timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = match next {
            Some(next) => {
                self.timer.set(self.clock.origin() + next.since(Instant::ZERO))?;
                None
            }
            None => Some(&no_time),
        };
        self.events.clear();
        self.events_seen = 0;
        let mut buffer = [MaybeUninit::uninit(); EVENTS_MAX];
        match epoll::wait(&self.epoll, &mut buffer[..], timeout) {
            Ok((found, _)) => self.events.extend_from_slice(found),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    /// Handles the events of some sockets.
    fn serve_events(&mut self) {
        let end = (self.events_seen + EVENTS_PER_TURN).min(self.events.len());
        while self.events_seen < end {
            let event = self.events[self.events_seen];
            self.events_seen += 1;
            let token = event.data.u64();
            let (index, number) = (token as u32 as usize, (token >> 32) as u32);
            if token != TIMER && self.has_user(index, number) {
                self.handle_event(index, event.flags);
            }
        }
    }

    /// Whether this user is still in its slot.
    fn has_user(&self, index: usize, number: u32) -> bool {
        self.users.get(index).is_some_and(|user| user.number == number)
    }

    fn wake_due(&mut self) {
        for _ in 0..WAKES_PER_TURN {
            let Some(wake) = self.wakes.pop_due(self.clock.now()) else { return };
            let index = wake.index as usize;
            if self.has_user(index, wake.number) && self.users[index].waiting == Waiting::Time {
                self.users[index].waiting = Waiting::Nothing;
                self.advance(index);
            }
        }
    }

    fn wake_at(&mut self, index: usize, at: Instant) {
        let user = &mut self.users[index];
        user.waiting = Waiting::Time;
        self.wakes.push(Wake { at, index: index as u32, number: user.number });
    }

    fn join_audience(&mut self, index: usize, audience: u8) {
        let user = &mut self.users[index];
        if user.audiences & (1 << audience) == 0 {
            user.audiences |= 1 << audience;
            self.audiences[usize::from(audience)].now += 1;
        }
    }

    fn leave_audience(&mut self, index: usize, audience: u8) {
        let user = &mut self.users[index];
        if user.audiences & (1 << audience) != 0 {
            user.audiences &= !(1 << audience);
            let audience = &mut self.audiences[usize::from(audience)];
            audience.now -= 1;
            audience.fewest = audience.fewest.min(audience.now);
        }
    }

    fn is_over(&self) -> bool {
        self.closed_before.is_some()
    }

    fn text_context<'b>(&'b self, user: &'b User) -> TextContext<'b> {
        let now = if self.scenario.is_timed { monotonic() } else { Duration::ZERO };
        self.text_context_at(user, now, Mark::Nothing)
    }

    fn text_context_at<'b>(&'b self, user: &'b User, now: Duration, mark: Mark) -> TextContext<'b> {
        TextContext {
            variables: &self.scenario.variables,
            seed: self.scenario.seed,
            user: u64::from(user.number),
            slots: user.memory.as_ref().map_or(&[][..], |memory| &memory.values),
            undefined: self.scenario.sessions[usize::from(user.session)].undefined,
            now,
            mark,
        }
    }
}

/// Milliseconds since the load began.
fn millis(at: Instant) -> u32 {
    u32::try_from(at.as_nanos() / 1_000_000).unwrap_or(NEVER - 1)
}

/// Microseconds since the load began, without the upper bits: enough for times below 71 minutes.
fn micros(at: Instant) -> u32 {
    (at.as_nanos() / 1_000) as u32
}

/// The time from a number of [`micros`].
fn micros_since(begun: u32, at: Instant) -> Duration {
    Duration::from_micros(micros(at).wrapping_sub(begun).into())
}

/// Resident memory of this process; 0 if it cannot be read.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_a_number_add_up_to_it() {
        let parts: Vec<u64> = (0..3).map(|index| Share { index, count: 3 }.of(11)).collect();
        assert_eq!(parts, [4, 4, 3]);
    }
}
