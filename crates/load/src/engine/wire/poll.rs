//! Events of sockets, and a timer. `epoll_wait` has a resolution of a millisecond, but arrivals can be closer.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Events read from epoll in one call.
const EVENTS_MAX: usize = 256;
/// The epoll key of the timer; no socket has it.
const TIMER: u64 = u64::MAX;

/// The epoll key of a user: its slot, and its number, which distinguishes it from later users of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Key(u64);

impl Key {
    pub(in crate::engine) const fn new(number: u32, index: usize) -> Key {
        Key((number as u64) << 32 | index as u64)
    }

    pub(in crate::engine) fn index(self) -> usize {
        self.0 as u32 as usize
    }

    pub(in crate::engine) fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Sockets that are watched, edge-triggered, and a timer.
pub(super) struct Poll {
    epoll: OwnedFd,
    timer: OwnedFd,
    timer_set_for: Duration,
    /// Events from epoll, and how many of them were handled.
    events: Vec<epoll::Event>,
    events_seen: usize,
}

impl Poll {
    pub(super) fn new() -> std::io::Result<Poll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Edge-triggered: it reports each expiry once and need not be read.
        let interest = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), interest)?;
        let events = Vec::with_capacity(EVENTS_MAX);
        Ok(Poll { epoll, timer, timer_set_for: Duration::ZERO, events, events_seen: 0 })
    }

    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.epoll
    }

    pub(super) fn add(&self, socket: &OwnedFd, key: Key, is_writing: bool) -> Result<(), Errno> {
        epoll::add(&self.epoll, socket, EventData::new_u64(key.0), interest(is_writing))
    }

    pub(super) fn modify(&self, socket: &OwnedFd, key: Key, is_writing: bool) -> Result<(), Errno> {
        epoll::modify(&self.epoll, socket, EventData::new_u64(key.0), interest(is_writing))
    }

    pub(super) fn remove(&self, socket: &OwnedFd) {
        // A socket that was not added has no events.
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Waits for events until this time of the monotonic clock, unless some are left; `None` does not wait.
    pub(super) fn wait(&mut self, until: Option<Duration>) -> std::io::Result<()> {
        if self.events_seen < self.events.len() {
            return Ok(());
        }
        let no_time = Timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = match until {
            Some(until) => {
                self.set_timer(until)?;
                None
            }
            None => Some(&no_time),
        };
        self.events.clear();
        self.events_seen = 0;
        let mut buffer = [MaybeUninit::uninit(); EVENTS_MAX];
        match epoll::wait(&self.epoll, &mut buffer[..], timeout) {
            Ok((found, _)) => self.events.extend_from_slice(found),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    /// The next event of a socket.
    pub(super) fn next_event(&mut self) -> Option<(Key, EventFlags)> {
        loop {
            let event = *self.events.get(self.events_seen)?;
            self.events_seen += 1;
            let key = event.data.u64();
            if key != TIMER {
                return Some((Key(key), event.flags));
            }
        }
    }

    /// Sets the timer to this time of the monotonic clock, in place of the earlier time.
    fn set_timer(&mut self, at: Duration) -> std::io::Result<()> {
        if self.timer_set_for == at {
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
        self.timer_set_for = at;
        Ok(())
    }
}

fn interest(is_writing: bool) -> EventFlags {
    let writing = if is_writing { EventFlags::OUT } else { EventFlags::empty() };
    EventFlags::IN | EventFlags::RDHUP | EventFlags::ET | writing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic;

    #[test]
    fn the_timer_expires_at_its_time_and_can_be_set_again() {
        let mut poll = Poll::new().unwrap();
        for delay in [Duration::from_micros(300), Duration::ZERO, Duration::from_micros(100)] {
            let at = monotonic() + delay;
            poll.wait(Some(at)).unwrap();
            assert_eq!((poll.events.len(), poll.next_event().is_none()), (1, true));
            assert!(monotonic() >= at);
        }
    }
}
