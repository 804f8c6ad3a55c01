//! Messages that another process writes, until it has confirmed them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use watchfire_cluster::bus::{Bus, LocalBus, Loss, SendError};
use watchfire_hub::history::{Bounds, Position};

use super::messages::{KEEPER, ToKeeper, encode};
use super::{Done, NotStored, Stored};

/// The longest wait for a confirmation.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The messages that are not confirmed, by their numbers.
#[derive(Default)]
pub(super) struct Publishes(Mutex<Unconfirmed>);

#[derive(Default)]
struct Unconfirmed {
    last: u64,
    waiting: BTreeMap<u64, (Instant, Done)>,
}

impl Publishes {
    /// Sends a message to the keeper. `done` gets the outcome.
    pub fn publish(
        &self,
        bus: &LocalBus,
        topic: &str,
        bounds: Bounds,
        (event, payload): (&str, &str),
        done: Done,
    ) {
        // Locked until it is sent, so that the messages of a thread keep their order.
        let mut unconfirmed = self.0.lock();
        unconfirmed.last += 1;
        let number = unconfirmed.last;
        let message = encode(&ToKeeper::Publish { number, topic, bounds, event, payload });
        let overhead = message.len() - event.len() - payload.len();
        let error = match bus.send(KEEPER, message, Loss::Drop) {
            Ok(()) => {
                unconfirmed.waiting.insert(number, (Instant::now(), done));
                return;
            }
            Err(SendError::Oversized { max, .. }) => {
                NotStored::TooLarge { bytes_max: max.saturating_sub(overhead) }
            }
            Err(_) => NotStored::Unavailable,
        };
        drop(unconfirmed);
        done(Err(error));
    }

    /// The keeper has written a message, or has refused it.
    pub fn end(&self, number: u64, position: Option<Position>) {
        let waiting = self.0.lock().waiting.remove(&number);
        if let Some((_, done)) = waiting {
            done(match position {
                Some(_) => Ok(Stored { position }),
                None => Err(NotStored::Unavailable),
            });
        }
    }

    /// The link is lost: nobody knows whether the messages are written.
    pub fn fail_all(&self) {
        self.fail(|_| true);
    }

    /// Gives up the messages that have waited for too long.
    pub fn fail_late(&self) {
        let now = Instant::now();
        self.fail(|sent_at| now.duration_since(*sent_at) > TIMEOUT);
    }

    fn fail(&self, is_failed: impl Fn(&Instant) -> bool) {
        loop {
            let failed = {
                let mut unconfirmed = self.0.lock();
                let first = unconfirmed.waiting.first_entry();
                first.filter(|entry| is_failed(&entry.get().0)).map(|entry| entry.remove())
            };
            match failed {
                Some((_, done)) => done(Err(NotStored::Unavailable)),
                None => return,
            }
        }
    }
}
