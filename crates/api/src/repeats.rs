//! Repeats of requests: a request with an `Idempotency-Key` is done once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchfire_types::Instant;

use super::error::{CallError, Code};

/// The bytes that an entry takes besides its texts.
const ENTRY_BYTES: usize = 160;
/// Requests that wait for the answer to the same request. Further ones are refused.
const WAITING_MAX: usize = 64;

/// Bounds on what is kept.
#[derive(Clone, Copy, Debug)]
pub struct RepeatLimits {
    pub period: Duration,
    pub keys_max: usize,
    pub bytes_max: usize,
}

/// The name of a request: the name of its caller, and the name that the caller chose.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RequestName {
    pub caller: String,
    pub key: String,
}

impl RequestName {
    pub fn new(caller: &str, key: &str) -> Self {
        RequestName { caller: caller.into(), key: key.into() }
    }
}

/// The answer to a request, and whether it was given before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub body: String,
    pub is_replayed: bool,
}

/// An answer that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptAnswer {
    /// The hash of the whole request.
    pub fingerprint: [u8; 32],
    pub body: String,
}

impl KeptAnswer {
    /// The answer to a repeat with this hash.
    pub fn replay(&self, fingerprint: [u8; 32]) -> Result<Answer, CallError> {
        check(self.fingerprint, fingerprint)?;
        Ok(Answer { body: self.body.clone(), is_replayed: true })
    }
}

fn check(kept: [u8; 32], fingerprint: [u8; 32]) -> Result<(), CallError> {
    if kept == fingerprint {
        return Ok(());
    }
    let message = "an earlier request had this Idempotency-Key and another content; \
         choose a new key for each request";
    Err(CallError::new(Code::IdempotencyConflict, message))
}

/// The outcome of [`Repeats::begin`]. `R` gets the answer to a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Begun<R> {
    /// The request is to be done. [`Repeats::end`] returns its `R`.
    First,
    /// The same request runs already. The end of that one returns the `R`.
    Waits,
    /// The answer is known.
    Answered(R, Result<Answer, CallError>),
}

/// The answers to the requests of the last minutes, and the requests that run.
#[derive(Debug)]
pub struct Repeats<R> {
    limits: RepeatLimits,
    answers: HashMap<Arc<RequestName>, KeptAnswer>,
    /// The names with an answer, in the order in which they expire.
    expiring: VecDeque<(Instant, Arc<RequestName>)>,
    bytes: usize,
    /// Their hashes, and all that wait for their answers.
    running: HashMap<RequestName, ([u8; 32], Vec<R>)>,
}

impl<R> Repeats<R> {
    pub fn new(limits: RepeatLimits) -> Self {
        let (answers, expiring, running) = (HashMap::new(), VecDeque::new(), HashMap::new());
        Repeats { limits, answers, expiring, bytes: 0, running }
    }

    /// How long an answer is kept.
    pub fn period(&self) -> Duration {
        self.limits.period
    }

    /// The answers that are kept, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.answers.len(), self.bytes)
    }

    /// The answer that is kept for a name.
    pub fn kept(&self, name: &RequestName) -> Option<&KeptAnswer> {
        self.answers.get(name)
    }

    /// Begins a request, unless an earlier one of this name runs, or its answer is kept.
    ///
    /// When the store is full, requests are refused. If it dropped its oldest answers instead, their
    /// repeats would be done twice without a notice.
    pub fn begin(
        &mut self,
        now: Instant,
        name: &RequestName,
        fingerprint: [u8; 32],
        reply: R,
    ) -> Begun<R> {
        self.expire(now);
        if let Some(kept) = self.answers.get(name) {
            return Begun::Answered(reply, kept.replay(fingerprint));
        }
        if let Some((first, waiting)) = self.running.get_mut(name) {
            if let Err(error) = check(*first, fingerprint) {
                return Begun::Answered(reply, Err(error));
            }
            if waiting.len() >= WAITING_MAX {
                let message = "an earlier request with this Idempotency-Key still runs; try again";
                return Begun::Answered(reply, Err(CallError::new(Code::Unavailable, message)));
            }
            waiting.push(reply);
            return Begun::Waits;
        }
        if self.is_full() {
            let message = "too many requests with an Idempotency-Key within \
                 five minutes; try again later";
            return Begun::Answered(reply, Err(CallError::new(Code::TooMany, message)));
        }
        self.running.insert(name.clone(), (fingerprint, vec![reply]));
        Begun::First
    }

    fn is_full(&self) -> bool {
        let RepeatLimits { keys_max, bytes_max, .. } = self.limits;
        self.answers.len() + self.running.len() >= keys_max || self.bytes >= bytes_max
    }

    /// Ends a request that was begun, and keeps its answer. An error is not kept: the request may be done
    /// again. Returns what each waiting request gets; the first one is that which was done.
    pub fn end(
        &mut self,
        now: Instant,
        name: &RequestName,
        result: Result<String, CallError>,
    ) -> Vec<(R, Result<Answer, CallError>)> {
        let Some((fingerprint, waiting)) = self.running.remove(name) else { return Vec::new() };
        if let Ok(body) = &result {
            self.insert(now, name.clone(), KeptAnswer { fingerprint, body: body.clone() });
        }
        let answers = waiting.into_iter().enumerate().map(|(index, reply)| {
            let body = result.clone();
            (reply, body.map(|body| Answer { body, is_replayed: index > 0 }))
        });
        answers.collect()
    }

    /// Keeps an answer of another process, if there is room for it.
    pub fn keep(&mut self, now: Instant, name: RequestName, answer: KeptAnswer) {
        self.expire(now);
        if !self.is_full() && !self.answers.contains_key(&name) {
            self.insert(now, name, answer);
        }
    }

    fn insert(&mut self, now: Instant, name: RequestName, answer: KeptAnswer) {
        let name = Arc::new(name);
        self.bytes += cost(&name, &answer.body);
        self.answers.insert(name.clone(), answer);
        self.expiring.push_back((now + self.limits.period, name));
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
    use super::*;

    const PERIOD: Duration = Duration::from_secs(300);

    /// Each request is known by a number.
    fn repeats(keys_max: usize, bytes_max: usize) -> Repeats<u32> {
        Repeats::new(RepeatLimits { period: PERIOD, keys_max, bytes_max })
    }

    fn name(caller: &str, key: &str) -> RequestName {
        RequestName::new(caller, key)
    }

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    fn begin(repeats: &mut Repeats<u32>, secs: u64, name: &RequestName, n: u32) -> Begun<u32> {
        repeats.begin(at(secs), name, [7; 32], n)
    }

    /// Runs a request whose answer is `n`, to its end.
    fn run(
        repeats: &mut Repeats<u32>,
        secs: u64,
        name: RequestName,
        n: u32,
    ) -> Result<Answer, Code> {
        let (_, answer) = match begin(repeats, secs, &name, n) {
            Begun::First => repeats.end(at(secs), &name, Ok(n.to_string())).remove(0),
            Begun::Answered(reply, answer) => (reply, answer),
            Begun::Waits => panic!("no other request runs"),
        };
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
    fn a_repeat_waits_for_the_request_that_runs_and_gets_its_answer() {
        let (mut repeats, name) = (repeats(10, 10_000), name("a", "k"));
        assert_eq!(begin(&mut repeats, 0, &name, 1), Begun::First);
        assert_eq!(begin(&mut repeats, 1, &name, 2), Begun::Waits);
        let Begun::Answered(3, Err(other)) = repeats.begin(at(1), &name, [8; 32], 3) else {
            panic!("the content is another one")
        };
        assert_eq!(other.code, Code::IdempotencyConflict);
        let answers = repeats.end(at(2), &name, Ok("x".into()));
        let answer = |is_replayed| Ok(Answer { body: "x".into(), is_replayed });
        assert_eq!(answers, [(1, answer(false)), (2, answer(true))]);
        assert_eq!(begin(&mut repeats, 3, &name, 4), Begun::Answered(4, answer(true)));
    }

    #[test]
    fn an_error_is_for_all_that_wait_and_is_not_kept() {
        let (mut repeats, name) = (repeats(10, 10_000), name("a", "k"));
        let error = CallError::new(Code::Unavailable, "");
        begin(&mut repeats, 0, &name, 1);
        begin(&mut repeats, 0, &name, 2);
        let answers = repeats.end(at(0), &name, Err(error.clone()));
        assert_eq!(answers, [(1, Err(error.clone())), (2, Err(error))]);
        assert_eq!(run(&mut repeats, 0, name, 3), new(3));
    }

    #[test]
    fn the_requests_that_wait_for_one_answer_are_bounded() {
        let (mut repeats, name) = (repeats(10, 10_000), name("a", "k"));
        assert_eq!(begin(&mut repeats, 0, &name, 0), Begun::First);
        for n in 1..WAITING_MAX as u32 {
            assert_eq!(begin(&mut repeats, 0, &name, n), Begun::Waits);
        }
        let Begun::Answered(99, Err(error)) = begin(&mut repeats, 0, &name, 99) else {
            panic!("there is no room")
        };
        assert_eq!(error.code, Code::Unavailable);
        assert_eq!(repeats.end(at(0), &name, Ok("x".into())).len(), WAITING_MAX);
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
        let Begun::Answered(_, other) = repeats.begin(at(1), &name("a", "k"), [8; 32], 2) else {
            panic!("the answer is kept")
        };
        assert_eq!(other.unwrap_err().code, Code::IdempotencyConflict);
        assert_eq!(run(&mut repeats, 2, name("a", "k"), 3), replayed(1));
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

    #[test]
    fn a_copy_of_an_answer_is_replayed_and_takes_no_room_that_is_not_there() {
        let mut repeats = repeats(2, 10_000);
        let answer = || KeptAnswer { fingerprint: [7; 32], body: "1".into() };
        (0..3).for_each(|n| repeats.keep(at(0), name("a", &n.to_string()), answer()));
        assert_eq!(repeats.size().0, 2);
        assert_eq!(run(&mut repeats, 1, name("a", "0"), 9), replayed(1));
        assert_eq!(run(&mut repeats, 1, name("a", "2"), 9), Err(Code::TooMany));
    }
}
