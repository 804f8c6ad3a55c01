use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Room for messages that have begun to arrive and were not taken in by the host, shared by the
/// streams of one connection.
///
/// A message takes its whole length from it before its first byte is kept, and waits in its
/// stream while there is none. What is largest still fits when nothing else is there, so that
/// someone can always go on.
#[derive(Clone, Debug)]
pub(super) struct Arrivals(Arc<Mutex<Room>>);

#[derive(Debug)]
struct Room {
    free: usize,
    /// Whether any bytes of a message came since this was last asked.
    is_moving: bool,
    /// At most one for each stream.
    waiting: Vec<Waker>,
}

/// Room that is taken until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    room: Arrivals,
    bytes: usize,
}

impl Arrivals {
    pub(super) fn new(bytes_max: usize) -> Self {
        Arrivals(Arc::new(Mutex::new(Room {
            free: bytes_max,
            is_moving: false,
            waiting: Vec::new(),
        })))
    }

    /// Takes `bytes`, or wakes the caller when some have come back.
    pub(super) fn poll_take(&self, bytes: usize, cx: &mut Context<'_>) -> Poll<Place> {
        let mut room = self.lock();
        if bytes > room.free {
            room.waiting.push(cx.waker().clone());
            return Poll::Pending;
        }
        room.free -= bytes;
        Poll::Ready(Place { room: self.clone(), bytes })
    }

    /// Notes that part of a message came.
    pub(super) fn note(&self) {
        self.lock().is_moving = true;
    }

    /// Whether part of a message came since this was last asked.
    pub(super) fn take_note(&self) -> bool {
        std::mem::take(&mut self.lock().is_moving)
    }

    fn lock(&self) -> MutexGuard<'_, Room> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut room = self.room.lock();
        room.free += self.bytes;
        let waiting = std::mem::take(&mut room.waiting);
        drop(room);
        waiting.into_iter().for_each(Waker::wake);
    }
}
