use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, EventData, EventFlags};

const EVENTS_PER_TURN_MAX: usize = 1024;

/// An epoll and a buffer for its events.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poller {
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll, events: Vec::with_capacity(EVENTS_PER_TURN_MAX) })
    }

    pub fn add(&self, source: impl AsFd, key: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(key), flags)?)
    }

    /// Waits for events.
    pub fn wait(&mut self) -> io::Result<()> {
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Events that the last [`Poller::wait`] returned.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// The key of the file that one of these events is about.
    pub fn key(&self, index: usize) -> u64 {
        self.events[index].data.u64()
    }
}
