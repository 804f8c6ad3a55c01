//! The wake-up times of users, and the timer of the engine. `epoll_wait` has a resolution of a
//! millisecond, but arrivals can be closer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use watchfire_types::Instant;

/// A wake-up of one user. The number detects a user that has ended meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wake {
    pub(super) at: Instant,
    pub(super) index: u32,
    pub(super) number: u32,
}

#[derive(Default)]
pub(super) struct Wakes(BinaryHeap<Reverse<Wake>>);

impl Wakes {
    pub(super) fn push(&mut self, wake: Wake) {
        self.0.push(Reverse(wake));
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse(wake)| wake.at)
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Wake> {
        let is_due = self.next_at().is_some_and(|at| at <= now);
        if is_due { self.0.pop().map(|Reverse(wake)| wake) } else { None }
    }
}

/// The epoll key of the timer; no socket has it.
pub(super) const TIMER: u64 = u64::MAX;

/// A timer file descriptor in an epoll set.
pub(super) struct Timer {
    timer: OwnedFd,
    set_for: Duration,
}

impl Timer {
    pub(super) fn new(epoll: &OwnedFd) -> std::io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Edge-triggered: it reports each expiry once and need not be read.
        let interest = EventFlags::IN | EventFlags::ET;
        epoll::add(epoll, &timer, EventData::new_u64(TIMER), interest)?;
        Ok(Timer { timer, set_for: Duration::ZERO })
    }

    /// Sets the timer to this time of the monotonic clock, in place of the earlier time.
    pub(super) fn set(&mut self, at: Duration) -> std::io::Result<()> {
        if self.set_for == at {
            return Ok(());
        }
        let time = |time: Duration| Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        // Zero would disarm the timer.
        let value = time(at.max(Duration::from_nanos(1)));
        let setting = Itimerspec { it_interval: time(Duration::ZERO), it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
        self.set_for = at;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic;

    #[test]
    fn the_timer_expires_at_its_time_and_can_be_set_again() {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let mut timer = Timer::new(&epoll).unwrap();
        for delay in [Duration::from_micros(300), Duration::ZERO, Duration::from_micros(100)] {
            let at = monotonic() + delay;
            timer.set(at).unwrap();
            let mut buffer = [std::mem::MaybeUninit::uninit(); 4];
            let (found, _) = epoll::wait(&epoll, &mut buffer[..], None).unwrap();
            let token = found[0].data;
            assert_eq!((found.len(), token.u64()), (1, TIMER));
            assert!(monotonic() >= at);
        }
    }
}
