//! Wakes the engine when something is due. The kernel's own wait counts in milliseconds; arrivals
//! are closer together than that.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// No socket's.
pub(super) const ALARM: u64 = u64::MAX;

/// A timer among an epoll's sockets.
pub(super) struct Alarm {
    timer: OwnedFd,
    set_for: Duration,
}

impl Alarm {
    pub(super) fn new(epoll: &OwnedFd) -> std::io::Result<Alarm> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Told once each time it goes off, so that nobody has to read it.
        let interest = EventFlags::IN | EventFlags::ET;
        epoll::add(epoll, &timer, EventData::new_u64(ALARM), interest)?;
        Ok(Alarm { timer, set_for: Duration::ZERO })
    }

    /// Go off at this time of the monotonic clock, instead of the one before.
    pub(super) fn set(&mut self, at: Duration) -> std::io::Result<()> {
        if self.set_for == at {
            return Ok(());
        }
        let time = |time: Duration| Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: i64::from(time.subsec_nanos()),
        };
        // Zero would turn it off.
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
    fn it_goes_off_at_its_time_and_may_be_set_again() {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let mut alarm = Alarm::new(&epoll).unwrap();
        for delay in [Duration::from_micros(300), Duration::ZERO, Duration::from_micros(100)] {
            let at = monotonic() + delay;
            alarm.set(at).unwrap();
            let mut buffer = [std::mem::MaybeUninit::uninit(); 4];
            let (found, _) = epoll::wait(&epoll, &mut buffer[..], None).unwrap();
            let token = found[0].data;
            assert_eq!((found.len(), token.u64()), (1, ALARM));
            assert!(monotonic() >= at);
        }
    }
}
