use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

/// What any message may take to come, and the slowest that a longer one may come, while others
/// find no room.
const MESSAGE_TAKES: Duration = Duration::from_secs(10);
const BYTES_A_SECOND_MIN: u64 = 64 << 10;

/// Room for the messages of all connections that have begun to arrive and were not taken in by
/// the host.
///
/// While all of it is taken, whoever is far too slow to fill what it took loses it: else some
/// peers that begin messages and never end them would silence all others.
#[derive(Clone, Debug)]
pub(crate) struct Hall {
    state: Arc<Mutex<HallState>>,
}

#[derive(Debug)]
struct HallState {
    free: usize,
    /// Messages that are arriving, by their number.
    arriving: BTreeMap<u64, Arriving>,
    next: u64,
    /// At most one for each stream.
    waiting: Vec<Waker>,
}

/// A message of which a part is not here.
#[derive(Debug)]
struct Arriving {
    due_at: Instant,
    is_given_up: bool,
    waker: Option<Waker>,
}

/// Room for messages that have begun to arrive and were not taken in by the host, shared by the
/// streams of one connection.
///
/// A message takes its whole length from it, and from the host's, before its first byte is kept,
/// and waits in its stream while there is none. What is largest still fits when nothing else is
/// there, so that someone can always go on.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    room: Arc<Mutex<Room>>,
    hall: Hall,
}

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
    arrivals: Arrivals,
    bytes: usize,
    number: u64,
}

/// What came of taking room.
#[derive(Debug)]
pub(super) enum Taken {
    Place(Place),
    /// There is none; the caller is woken when there may be.
    Wait,
    /// There is none in the whole host; the caller is woken when some comes back, and has to ask
    /// again then, when somebody loses it.
    WaitUntil(Instant),
}

impl Hall {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let (arriving, waiting) = (BTreeMap::new(), Vec::new());
        let state = HallState { free: bytes_max, arriving, next: 0, waiting };
        Hall { state: Arc::new(Mutex::new(state)) }
    }

    /// As if much time had passed.
    #[cfg(test)]
    pub(super) fn are_all_overdue(&self) {
        let now = Instant::now();
        self.lock().arriving.values_mut().for_each(|arriving| arriving.due_at = now);
    }

    fn lock(&self) -> MutexGuard<'_, HallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HallState {
    /// Takes room from those who are overdue; when the next of them will be.
    fn give_up_overdue(&mut self, now: Instant) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for arriving in self.arriving.values_mut().filter(|arriving| !arriving.is_given_up) {
            if arriving.due_at <= now {
                arriving.is_given_up = true;
                arriving.waker.take().into_iter().for_each(Waker::wake);
            } else {
                next = Some(next.map_or(arriving.due_at, |next| next.min(arriving.due_at)));
            }
        }
        next
    }
}

impl Arrivals {
    pub(super) fn new(bytes_max: usize, hall: Hall) -> Self {
        let room = Room { free: bytes_max, is_moving: false, waiting: Vec::new() };
        Arrivals { room: Arc::new(Mutex::new(room)), hall }
    }

    /// Takes `bytes` for a message.
    pub(super) fn take(&self, bytes: usize, cx: &mut Context<'_>) -> Taken {
        let mut room = self.lock();
        if bytes > room.free {
            room.waiting.push(cx.waker().clone());
            return Taken::Wait;
        }
        let mut hall = self.hall.lock();
        let now = Instant::now();
        if bytes > hall.free {
            hall.waiting.push(cx.waker().clone());
            return hall.give_up_overdue(now).map_or(Taken::Wait, Taken::WaitUntil);
        }
        room.free -= bytes;
        hall.free -= bytes;
        let number = hall.next;
        hall.next += 1;
        let due_at = now + MESSAGE_TAKES + Duration::from_secs(bytes as u64 / BYTES_A_SECOND_MIN);
        hall.arriving.insert(number, Arriving { due_at, is_given_up: false, waker: None });
        Taken::Place(Place { arrivals: self.clone(), bytes, number })
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
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Whether the message that it was taken for is to be given up, since others wait for the
    /// room and it is too slow. If not, the caller is woken when that changes.
    pub(super) fn is_given_up(&self, cx: &mut Context<'_>) -> bool {
        let mut hall = self.arrivals.hall.lock();
        let Some(arriving) = hall.arriving.get_mut(&self.number) else { return false };
        if !arriving.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            arriving.waker = Some(cx.waker().clone());
        }
        arriving.is_given_up
    }

    /// All of the message came.
    pub(super) fn is_filled(&self) {
        self.arrivals.hall.lock().arriving.remove(&self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut room = self.arrivals.lock();
        room.free += self.bytes;
        let mut waiting = std::mem::take(&mut room.waiting);
        drop(room);
        let mut hall = self.arrivals.hall.lock();
        hall.free += self.bytes;
        hall.arriving.remove(&self.number);
        waiting.append(&mut hall.waiting);
        drop(hall);
        waiting.into_iter().for_each(Waker::wake);
    }
}
