//! Repeats of requests: a request with an `Idempotency-Key` is done once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use watchfire_types::Instant;

use super::error::{CallError, Code};

/// The bytes that an entry takes besides its texts.
const ENTRY_BYTES: usize = 160;

/// Bounds on what is kept.
#[derive(Clone, Copy, Debug)]
pub struct RepeatLimits {
    pub period: Duration,
    pub keys_max: usize,
    pub bytes_max: usize,
}

/// The name of a request: the name of its caller, and the name that the caller chose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestName {
    pub caller: String,
    pub key: String,
}

/// The answer to a request, and whether it was given before.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub body: String,
    pub is_replayed: bool,
}

/// The answers to the requests of the last minutes.
#[derive(Debug)]
pub struct Repeats {
    limits: RepeatLimits,
    answers: HashMap<Arc<RequestName>, Kept>,
    /// All names, in the order in which they expire.
    expiring: VecDeque<(Instant, Arc<RequestName>)>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    /// The hash of the whole request.
    fingerprint: [u8; 32],
    body: String,
}

impl Repeats {
    pub fn new(limits: RepeatLimits) -> Self {
        Repeats { limits, answers: HashMap::new(), expiring: VecDeque::new(), bytes: 0 }
    }

    /// The answers that are kept, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.answers.len(), self.bytes)
    }

    /// Returns the answer to an earlier request of this name. Otherwise runs the request, and keeps
    /// its answer. An error is not kept: nothing was done.
    ///
    /// When the store is full, requests are refused. If it dropped its oldest answers instead, their
    /// repeats would be done twice without a notice.
    pub fn run(
        &mut self,
        now: Instant,
        name: RequestName,
        fingerprint: [u8; 32],
        run: impl FnOnce() -> Result<Value, CallError>,
    ) -> Result<Answer, CallError> {
        self.expire(now);
        if let Some(kept) = self.answers.get(&name) {
            if kept.fingerprint != fingerprint {
                let message = "an earlier request had this Idempotency-Key and another content; \
                     choose a new key for each request";
                return Err(CallError::new(Code::IdempotencyConflict, message));
            }
            return Ok(Answer { body: kept.body.clone(), is_replayed: true });
        }
        let RepeatLimits { period, keys_max, bytes_max } = self.limits;
        if self.answers.len() >= keys_max || self.bytes >= bytes_max {
            let message = "too many requests with an Idempotency-Key within \
                 five minutes; try again later";
            return Err(CallError::new(Code::TooMany, message));
        }
        let body = run()?.to_string();
        let name = Arc::new(name);
        self.bytes += cost(&name, &body);
        self.answers.insert(name.clone(), Kept { fingerprint, body: body.clone() });
        self.expiring.push_back((now + period, name));
        Ok(Answer { body, is_replayed: false })
    }

    /// Forgets the answers that are old enough.
    pub fn expire(&mut self, now: Instant) {
        while let Some((_, name)) = self.expiring.pop_front_if(|(at, _)| *at <= now) {
            let kept = self.answers.remove(&name).expect("every name expires once");
            self.bytes -= cost(&name, &kept.body);
        }
        if self.answers.is_empty() {
            // After a crowd of requests, the memory is given back.
            self.answers = HashMap::new();
            self.expiring = VecDeque::new();
        }
    }
}

fn cost(name: &RequestName, body: &str) -> usize {
    ENTRY_BYTES + name.caller.len() + name.key.len() + body.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(300);

    fn repeats(keys_max: usize, bytes_max: usize) -> Repeats {
        Repeats::new(RepeatLimits { period: PERIOD, keys_max, bytes_max })
    }

    fn name(caller: &str, key: &str) -> RequestName {
        RequestName { caller: caller.into(), key: key.into() }
    }

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    /// Runs a request whose answer is `n`.
    fn run(repeats: &mut Repeats, secs: u64, name: RequestName, n: u32) -> Result<Answer, Code> {
        let answer = repeats.run(at(secs), name, [7; 32], || Ok(json!(n)));
        answer.map_err(|error| error.code)
    }

    fn new(n: u32) -> Result<Answer, Code> {
        Ok(Answer { body: n.to_string(), is_replayed: false })
    }

    fn replayed(n: u32) -> Result<Answer, Code> {
        Ok(Answer { body: n.to_string(), is_replayed: true })
    }

    #[test]
    fn a_repeat_gets_the_first_answer_until_it_expires() {
        let mut repeats = repeats(10, 10_000);
        assert_eq!(run(&mut repeats, 0, name("a", "k"), 1), new(1));
        assert_eq!(run(&mut repeats, 299, name("a", "k"), 2), replayed(1));
        assert_eq!(run(&mut repeats, 300, name("a", "k"), 3), new(3));
        assert_eq!(repeats.size().0, 1);
        repeats.expire(at(600));
        assert_eq!(repeats.size(), (0, 0));
    }

    #[test]
    fn callers_do_not_share_their_keys() {
        let mut repeats = repeats(10, 10_000);
        assert_eq!(run(&mut repeats, 0, name("a", "k"), 1), new(1));
        assert_eq!(run(&mut repeats, 0, name("b", "k"), 2), new(2));
    }

    #[test]
    fn the_same_key_with_another_content_is_a_conflict() {
        let mut repeats = repeats(10, 10_000);
        assert_eq!(run(&mut repeats, 0, name("a", "k"), 1), new(1));
        let other = repeats.run(at(1), name("a", "k"), [8; 32], || Ok(json!(2)));
        assert_eq!(other.unwrap_err().code, Code::IdempotencyConflict);
        assert_eq!(run(&mut repeats, 2, name("a", "k"), 3), replayed(1));
    }

    #[test]
    fn an_error_is_not_kept() {
        let mut repeats = repeats(10, 10_000);
        let error = CallError::new(Code::TopicInvalid, "");
        let failed = repeats.run(at(0), name("a", "k"), [7; 32], || Err(error.clone()));
        assert_eq!(failed, Err(error));
        assert_eq!(run(&mut repeats, 0, name("a", "k"), 1), new(1));
    }

    #[test]
    fn a_full_store_refuses_new_keys_and_still_knows_the_old_ones() {
        let mut few = repeats(2, 10_000);
        let mut small = repeats(10, 300);
        for store in [&mut few, &mut small] {
            assert_eq!(run(store, 0, name("a", "1"), 1), new(1));
            assert_eq!(run(store, 0, name("a", "2"), 2), new(2));
            assert_eq!(run(store, 1, name("a", "3"), 3), Err(Code::TooMany));
            assert_eq!(run(store, 1, name("a", "1"), 4), replayed(1));
            assert_eq!(run(store, 300, name("a", "3"), 5), new(5));
        }
    }
}
