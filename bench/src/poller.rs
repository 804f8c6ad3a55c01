use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

const EVENTS_PER_TURN_MAX: usize = 1024;

/// An epoll and a buffer for its events.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// The events of the file registered under `key`.
#[derive(Clone, Copy)]
pub struct Ready {
    pub key: u64,
    pub flags: EventFlags,
}

impl Poller {
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll, events: Vec::with_capacity(EVENTS_PER_TURN_MAX) })
    }

    pub fn add(&self, source: impl AsFd, key: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(key), flags)?)
    }

    /// Wait for events until `timeout`; `None` waits without a limit.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        self.events.clear();
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut self.events),
            timeout.as_ref(),
        ) {
            Ok(_) => Ok(()),
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Events that the last [`Poller::wait`] returned.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// One of these events.
    pub fn ready(&self, index: usize) -> Ready {
        let epoll::Event { flags, data } = self.events[index];
        Ready { key: data.u64(), flags }
    }
}
