//! All users of one process: a slab of small records over one epoll, in one thread.
//!
//! The engine is the loop, and carries the results of one part to another. A part keeps its state to itself, for all
//! users and for each:
//!
//! ```text
//! users      the records of users, and when they continue
//! schedule   which user arrives next
//! progress   where a user is in its session, and how its steps are measured
//! script     steps that send nothing, the use of answers, and requests as bytes (`requests`)
//! meeting    users that wait for each other
//! channel    refs, heartbeats and messages of Phoenix
//! wire       sockets and bytes
//! pages      pages that users load from each other
//! web_files  the files of a web page
//! reconnect  users that connect again
//! reports    the figures
//! ```
//!
//! `steps` begins and ends the steps of users, `answers` handles what arrives for them, and `background_poll` polls
//! while other steps go on.

mod answers;
mod background_poll;
mod channel;
mod meeting;
mod pages;
mod progress;
mod reconnect;
mod reports;
mod requests;
mod schedule;
mod script;
mod steps;
mod users;
mod web_files;
mod wire;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use watchfire_types::Instant;

use crate::clock::Clock;
use crate::cookies::CookieJar;
use crate::failure::Failure;
use crate::frame::Opcode;
use crate::order::Order;
use crate::plan::{Plan, Share};
use crate::scenario::Scenario;
use crate::tally::Delta;

use background_poll::Companion;
use channel::Channel;
use meeting::Meeting;
use pages::{Pages, Visit};
use progress::{Progress, Waiting};
use reconnect::Break;
use reports::{Memberships, Reports};
use schedule::Schedule;
use script::{Attempts, Groups, Script, Values};
use users::Users;
use web_files::{LinkCache, WebFiles};
use wire::{Connection, RateLimit, Wire};

/// Bytes read from a socket in one call; all users share the buffer.
const READ_BYTES: usize = 64 << 10;
/// The most work of each kind in one turn of the event loop. A turn takes a fraction of a
/// millisecond, so that the next due user is not late.
const STARTS_PER_TURN: usize = 8;
const WAKES_PER_TURN: usize = 16;
const EVENTS_PER_TURN: usize = 16;
/// Slots that are looked at in one turn, and users that something is done for.
const SLOTS_PER_TURN: usize = 1_000;
const CHECKS_PER_TURN: usize = 16;

/// A time in milliseconds since the load began that is never reached.
const NEVER: u32 = u32::MAX;

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

/// The orders to an engine while it runs. All clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inbox {
    pub(crate) stop: StopFlag,
    pub(crate) plans: Arc<Mutex<Vec<Plan>>>,
}

impl Inbox {
    pub(crate) fn add(&self, plan: Plan) {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner).push(plan);
    }

    fn take_plans(&self) -> Vec<Plan> {
        std::mem::take(&mut *self.plans.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One simulated user, small enough for a hundred thousand of them: its part in each part of the engine.
struct User {
    /// The number of the user in the whole load. It also distinguishes users of the same slot.
    number: u32,
    progress: Progress,
    connection: Connection,
    channel: Channel,
    memberships: Memberships,
    /// The parts that only some users need, so that the others stay small.
    memory: Option<Box<Memory>>,
}

#[derive(Default)]
struct Memory {
    values: Values,
    cookies: CookieJar,
    attempts: Attempts,
    groups: Groups,
    /// The connection that is kept for each protocol while the user speaks another one.
    kept: [Option<Connection>; 2],
    companion: Option<Companion>,
    /// The page that it loads or serves, and the files of a web page that it loads.
    visit: Option<Box<Visit>>,
    files: Option<Box<WebFiles>>,
    rate_limit: Option<RateLimit>,
    /// The break after which it connects again.
    broken: Option<Break>,
    order: Order,
}

impl User {
    fn new(number: u32, session: u16, target: u16, at: Instant) -> User {
        User {
            number,
            progress: Progress::new(session, at),
            connection: Connection::new(target),
            channel: Channel::new(),
            memberships: Memberships::default(),
            memory: None,
        }
    }

    fn rate_limit(&mut self) -> Option<&mut RateLimit> {
        self.memory.as_mut()?.rate_limit.as_mut()
    }

    fn visit(&mut self) -> Option<&mut Visit> {
        self.memory.as_mut()?.visit.as_deref_mut()
    }

    /// The memory of a user, which is made when it is needed first.
    fn memory(&mut self, scenario: &Scenario) -> &mut Memory {
        let slots = scenario.sessions[self.progress.session()].slots;
        self.memory.get_or_insert_with(|| {
            Box::new(Memory { values: Values::new(slots), ..Memory::default() })
        })
    }
}

pub(crate) struct Engine<'a> {
    scenario: &'a Scenario,
    clock: Clock,
    users: Users,
    users_max: u64,
    schedule: Schedule<'a>,
    script: Script<'a>,
    meeting: Meeting,
    wire: Wire<'a>,
    pages: Pages<'a>,
    links: LinkCache,
    reports: Reports<'a>,
    read_buffer: Vec<u8>,
    /// Messages and requests are encoded here.
    message_buffer: Vec<u8>,
    /// Whether a session has ended the load.
    is_aborted: bool,
    /// Whether users send every message back, see [`crate::worker::echo`].
    echoes: bool,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(
        scenario: &'a Scenario,
        plan: Plan,
        clock: Clock,
    ) -> std::io::Result<Engine<'a>> {
        let reports = Reports::new(scenario);
        // The part of each source of numbers and addresses stays that of the first share.
        let share = plan.share.unwrap_or(Share { index: 0, count: 1 });
        Ok(Engine {
            scenario,
            clock,
            users: Users::default(),
            users_max: share.of(scenario.users_max),
            schedule: Schedule::new(scenario, plan),
            script: Script::new(scenario, share),
            // Workers do not talk to each other, so the users of each worker meet on their own.
            meeting: Meeting::new(share.of(scenario.meeting_size)),
            wire: Wire::new(scenario, share, clock)?,
            pages: Pages::new(scenario, share),
            links: LinkCache::default(),
            reports,
            read_buffer: vec![0; READ_BYTES],
            message_buffer: Vec::new(),
            is_aborted: false,
            echoes: false,
        })
    }

    /// Users send every message back.
    pub(crate) fn echoing(self) -> Engine<'a> {
        Engine { echoes: true, ..self }
    }

    /// Runs the load to its end, or until it is stopped. `report` receives the results every
    /// second; it returns `false` to end the load.
    pub(crate) fn run(
        mut self,
        inbox: &Inbox,
        mut report: impl FnMut(Delta) -> bool,
    ) -> std::io::Result<()> {
        self.clock.wait_for_begin();
        // A worker may join a load that runs.
        let mut second = u32::try_from(self.clock.now().as_secs()).unwrap_or(u32::MAX);
        loop {
            self.follow(inbox.take_plans());
            let now = self.clock.now();
            let planned = Instant::ZERO + self.scenario.duration() + self.schedule.paused(now);
            // Phases that wait for their users do not make the whole load longer.
            let cut_at = planned + self.scenario.wind_down;
            let over_at = planned + self.schedule.delay();
            let is_stopped = inbox.stop.is_set() || self.schedule.has_left(now);
            let is_cut = now >= cut_at || is_stopped || self.is_aborted;
            if is_cut || (self.schedule.is_done() && self.users.is_empty() && now >= over_at) {
                if !is_stopped {
                    self.measure_unanswered(over_at);
                }
                self.reports.counts().cut_off += self.users.active();
                self.users.clear();
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
            self.check_users(now);
            if now >= over_at {
                self.close_idle();
            }
            self.start_due();
            self.wake_due();
            self.serve_events();
            let mut next = second_ends_at.min(self.users.check_at()).min(cut_at);
            if now < over_at {
                next = next.min(over_at);
            }
            next = next.min(self.users.next_wake().unwrap_or(next));
            if !self.wire.is_opening_many() {
                next = next.min(self.next_arrival_at().unwrap_or(next));
            }
            let (checks, closes) = self.users.searches();
            let is_searching = checks || (closes && !self.pages.is_loading());
            self.wire.wait((!is_searching).then_some(next))?;
        }
    }

    /// Takes up another share, another scale or a pause, each from its time of the schedule on.
    fn follow(&mut self, plans: Vec<Plan>) {
        for plan in plans {
            self.schedule.add(plan);
            if let Some(share) = plan.share {
                self.users_max = share.of(self.scenario.users_max);
            }
        }
    }

    fn delta(&mut self, second: u32, is_last: bool) -> Delta {
        let mut delta = self.reports.take();
        delta.second = second;
        delta.is_last = is_last;
        delta.is_aborted = self.is_aborted;
        self.users.report(&mut delta);
        self.wire.report(&mut delta);
        delta
    }

    fn next_arrival_at(&mut self) -> Option<Instant> {
        self.schedule.next_at(self.clock.now(), !self.users.is_empty())
    }

    fn start_due(&mut self) {
        for _ in 0..STARTS_PER_TURN {
            if self.wire.is_opening_many() {
                return;
            }
            let now = self.clock.now();
            let Some(at) = self.next_arrival_at().filter(|at| *at <= now) else { return };
            let Some(user) = self.schedule.take(at) else { return };
            self.reports.due(now.since(at));
            if self.users.active() >= self.users_max {
                self.reports.counts().turned_away += 1;
                continue;
            }
            self.reports.counts().started += 1;
            let index = self.users.insert(user);
            if let Some(rate) = self.scenario.rate {
                self.limit_rate(index, rate);
            }
            self.advance(index);
        }
    }

    fn wake_due(&mut self) {
        for _ in 0..WAKES_PER_TURN {
            let Some((index, number)) = self.users.pop_due(self.clock.now()) else { return };
            if self.users.has(index, number)
                && self.users[index].progress.waiting() == Waiting::Time
            {
                self.users[index].progress.stop_waiting();
                self.advance(index);
            }
        }
    }

    /// Handles the events of some sockets.
    fn serve_events(&mut self) {
        for _ in 0..EVENTS_PER_TURN {
            let Some((key, flags)) = self.wire.next_event() else { return };
            if self.users.has(key.index(), key.number()) {
                self.handle_event(key.index(), flags);
            }
        }
    }

    /// Acts on users from this slot on. `act` returns whether it did something. Only few slots are looked at in one
    /// turn, so that the next due user is not late. Returns the slot to continue at.
    fn act_on_slots(&mut self, first: usize, act: impl Fn(&mut Self, usize) -> bool) -> usize {
        let slots = self.users.slots_from(first, SLOTS_PER_TURN);
        let end = slots.end;
        let mut acted = 0;
        for index in slots {
            acted += usize::from(self.users.get_mut(index).is_some() && act(self, index));
            if acted == CHECKS_PER_TURN {
                return index + 1;
            }
        }
        end
    }

    /// Checks all users for timeouts, due heartbeats, and pauses that have ended.
    fn check_users(&mut self, now: Instant) {
        let Some(first) = self.users.next_to_check(now) else { return };
        if first == 0 && self.meeting.is_overdue(now) {
            self.reports.count("meeting_timeout");
            self.end_meeting();
        }
        let next = self.act_on_slots(first, |engine, index| engine.check_user(index, now));
        self.users.check_continues_at(next);
    }

    fn check_user(&mut self, index: usize, now: Instant) -> bool {
        let user = &mut self.users[index];
        let now_ms = millis(now);
        if user.progress.is_timed_out(now_ms) {
            self.time_out(index);
        } else if user.channel.is_heartbeat_due(now_ms) {
            match user.channel.heartbeat(now_ms) {
                Some(heartbeat) => {
                    self.send_frame(index, Opcode::Text, heartbeat.as_bytes());
                }
                None => self.fail(index, Failure::HeartbeatUnanswered),
            }
        } else {
            return self.resumes_reading(index, now);
        }
        true
    }

    /// After the end of the load: disconnect the users that only stay. They may serve a page, so all stay while one
    /// is loaded.
    fn close_idle(&mut self) {
        let first = self.users.end_load();
        if self.pages.is_loading() {
            return;
        }
        let next = self.act_on_slots(first, |engine, index| {
            let progress = &mut engine.users[index].progress;
            if progress.waiting() != Waiting::Over {
                return false;
            }
            progress.stop_waiting();
            progress.go_on();
            engine.advance(index);
            true
        });
        self.users.closing_continues_at(next);
    }
}

/// Milliseconds since the load began.
fn millis(at: Instant) -> u32 {
    u32::try_from(at.as_nanos() / 1_000_000).unwrap_or(NEVER - 1)
}
