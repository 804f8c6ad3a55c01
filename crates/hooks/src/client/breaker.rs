//! The circuit breaker: it stops requests to a backend that does not answer.

use std::time::Duration;

use watchfire_types::Instant;

/// Decides whether a request is sent, from the outcomes of earlier ones.
///
/// It is closed at first: every request is sent. After `failures_max` failures in a row it is open:
/// no request is sent. After `retry_after` it sends one request. When that succeeds, it is closed
/// again; when it fails, it is open for another `retry_after`.
#[derive(Debug)]
pub(super) struct Breaker {
    failures_max: u32,
    retry_after: Duration,
    state: State,
    /// How often the breaker has changed between open and closed. Outcomes of requests that were
    /// permitted before the last change are ignored.
    changes: u64,
}

#[derive(Debug)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
    },
    /// One request is on its way.
    Trying,
}

/// Permits one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permit {
    changes: u64,
}

/// A change of the breaker, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Opened,
    Closed,
}

impl Breaker {
    pub fn new(failures_max: u32, retry_after: Duration) -> Self {
        Breaker { failures_max, retry_after, state: State::Closed { failures: 0 }, changes: 0 }
    }

    /// Permits a request, or not. Each permit needs one [`Breaker::record`].
    pub fn permit(&mut self, now: Instant) -> Option<Permit> {
        match self.state {
            State::Closed { .. } => {}
            State::Open { until } if until <= now => {
                self.state = State::Trying;
                self.changes += 1;
            }
            State::Open { .. } | State::Trying => return None,
        }
        Some(Permit { changes: self.changes })
    }

    /// Records the outcome of a request.
    pub fn record(&mut self, now: Instant, permit: Permit, is_success: bool) -> Option<Change> {
        if permit.changes != self.changes {
            return None;
        }
        match (&mut self.state, is_success) {
            (State::Closed { failures }, true) => {
                *failures = 0;
                None
            }
            (State::Closed { failures }, false) => {
                *failures += 1;
                (*failures >= self.failures_max).then(|| self.open(now))
            }
            (State::Trying, true) => {
                self.state = State::Closed { failures: 0 };
                self.changes += 1;
                Some(Change::Closed)
            }
            (State::Trying, false) => {
                self.open(now);
                None
            }
            (State::Open { .. }, _) => None,
        }
    }

    /// Whether the breaker stops requests.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed { .. })
    }

    fn open(&mut self, now: Instant) -> Change {
        self.state = State::Open { until: now + self.retry_after };
        self.changes += 1;
        Change::Opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn breaker() -> Breaker {
        Breaker::new(3, Duration::from_secs(5))
    }

    fn fail(breaker: &mut Breaker, now: Instant) -> Option<Change> {
        let permit = breaker.permit(now).expect("a request is permitted");
        breaker.record(now, permit, false)
    }

    #[test]
    fn it_opens_after_failures_in_a_row_only() {
        let mut breaker = breaker();
        for _ in 0..10 {
            assert_eq!(fail(&mut breaker, at(0)), None);
            assert_eq!(fail(&mut breaker, at(0)), None);
            let permit = breaker.permit(at(0)).unwrap();
            assert_eq!(breaker.record(at(0), permit, true), None);
        }
        assert_eq!([(); 3].map(|()| fail(&mut breaker, at(0))), [None, None, Some(Change::Opened)]);
        assert!(breaker.is_open());
        assert_eq!(breaker.permit(at(4)), None);
    }

    #[test]
    fn one_request_decides_whether_it_closes() {
        let mut breaker = breaker();
        for _ in 0..3 {
            fail(&mut breaker, at(0));
        }
        let first = breaker.permit(at(5)).expect("one request is sent");
        assert_eq!(breaker.permit(at(5)), None, "only one");
        assert_eq!(breaker.record(at(6), first, false), None);
        assert_eq!(breaker.permit(at(10)), None, "another 5 s from the failure on");
        let second = breaker.permit(at(11)).unwrap();
        assert_eq!(breaker.record(at(11), second, true), Some(Change::Closed));
        assert!(!breaker.is_open() && breaker.permit(at(11)).is_some());
    }

    #[test]
    fn requests_from_before_it_opened_change_nothing() {
        let mut breaker = breaker();
        let late = [(); 4].map(|()| breaker.permit(at(0)).unwrap());
        for _ in 0..3 {
            fail(&mut breaker, at(0));
        }
        assert_eq!(breaker.record(at(1), late[0], true), None);
        assert_eq!(breaker.permit(at(1)), None);
        let attempt = breaker.permit(at(5)).unwrap();
        assert_eq!(breaker.record(at(5), late[1], true), None, "not the request that decides");
        assert_eq!(breaker.record(at(5), late[2], false), None);
        assert_eq!(breaker.record(at(5), attempt, true), Some(Change::Closed));
        assert_eq!(breaker.record(at(5), late[3], false), None);
    }
}
