//! How the processes of a machine get numbers that no other machine has, without clocks and NATS.
//!
//! A machine that starts asks which machines there are, takes the lowest free numbers, and announces
//! them. If another machine has them already, or announces them too and is older, it takes others.
//! A running machine repeats its announcement every second.
//!
//! The same messages carry the secret that all machines share. The first machine makes it; each
//! running one sends it to those that ask. With a key in the settings, all derive it from the key,
//! and it is never sent.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use crate::bus::NODES_MAX;
use hkdf::Hkdf;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use watchfire_types::{FixedHash, Instant, NodeId};

/// A hash of samples of this crate's messages. A test computes it, so that it changes with them.
pub(crate) const FORMAT: u64 = 0x1f58_d597_df3e_658f;

/// The format that a machine announces: one hash of the messages of this crate and of the messages
/// that the links carry. Machines of another format are not linked.
pub(crate) fn announced_format(of_messages: u64) -> u32 {
    let hash = FixedHash::new(0).number(FORMAT).number(of_messages).finish();
    (hash >> 32) as u32
}

/// How long a machine that starts waits for the others to answer.
const LISTEN_TIME: Duration = Duration::from_secs(1);
/// How often it asks again.
const HELLO_INTERVAL: Duration = Duration::from_millis(300);
/// How long it waits for objections to its numbers.
const CLAIM_TIME: Duration = Duration::from_millis(500);
/// How often a machine announces itself.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(1);
/// A machine that was silent for this time is gone.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long a start may take.
const START_TIME_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MachineMessage {
    /// A machine starts, and asks for announcements and the secret.
    Hello { incarnation: u64 },
    /// A machine has these numbers, or claims them.
    Announcement(Announcement),
    /// A machine stops.
    Gone { incarnation: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Announcement {
    /// New at each start, and larger than the incarnation of a machine that started earlier.
    pub incarnation: u64,
    pub first: u16,
    pub processes: u16,
    /// The id of the cluster, derived from its secret.
    pub cluster: u64,
    pub format: u32,
    /// Whether it serves: nobody objected to its numbers.
    pub is_settled: bool,
}

/// The answer to a [`MachineMessage::Hello`], for that machine only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    /// `None`: the cluster has a key, from which each machine derives the secret.
    pub secret: Option<[u8; 32]>,
}

/// The next step of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Send(MachineMessage),
    Welcome(u64, Welcome),
    /// The numbers are this machine's.
    Settled,
    /// Another cluster uses the same prefix. Its messages are ignored.
    OtherCluster,
}

/// Why a machine cannot be a part of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The machines of the prefix have another key, or none, or they do not know each other.
    #[error(
        "another cluster uses this prefix: set the same cluster.key on all machines of a cluster, and another cluster.prefix for each cluster"
    )]
    OtherCluster,
    #[error(
        "the cluster has no room for {processes} more processes: all machines together may have {NODES_MAX}"
    )]
    Full { processes: u16 },
    #[error("the machines of the cluster did not answer within {} s", START_TIME_MAX.as_secs())]
    NoAnswer,
    /// After a partition two machines have the same numbers. This one started later.
    #[error("a machine that started earlier has the same node numbers; start this server again")]
    Conflict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Listening { until: Instant },
    Claiming { first: u16, until: Instant },
    Settled { first: u16 },
}

/// This machine's claim to its numbers.
#[derive(Debug)]
pub(crate) struct Claim {
    incarnation: u64,
    processes: u16,
    format: u32,
    has_key: bool,
    /// The cluster's secret, if it is known yet.
    secret: Option<[u8; 32]>,
    /// The secret of a new cluster.
    own_secret: [u8; 32],
    phase: Phase,
    started: Instant,
    last_sent: Option<Instant>,
    machines: BTreeMap<u64, (Announcement, Instant)>,
    /// Machines that start, too.
    starting: BTreeMap<u64, Instant>,
}

impl Claim {
    /// `random` is the secret of a new cluster without a key.
    pub fn new(
        now: Instant,
        incarnation: u64,
        (processes, format): (u16, u32),
        key: Option<&str>,
        random: [u8; 32],
    ) -> Self {
        let own_secret = key.map_or(random, |key| derive(key.as_bytes(), b"watchfire cluster"));
        Claim {
            incarnation,
            processes,
            format,
            has_key: key.is_some(),
            secret: key.is_some().then_some(own_secret),
            own_secret,
            phase: Phase::Listening { until: now + LISTEN_TIME },
            started: now,
            last_sent: None,
            machines: BTreeMap::new(),
            starting: BTreeMap::new(),
        }
    }

    /// The secret of the cluster, once it is known.
    pub fn secret(&self) -> Option<&[u8; 32]> {
        self.secret.as_ref()
    }

    /// The id of the cluster, once its secret is known.
    pub fn cluster(&self) -> Option<u64> {
        self.secret.map(|secret| cluster_id(&secret))
    }

    /// The first number of this machine, once nobody can object.
    pub fn first(&self) -> Option<NodeId> {
        match self.phase {
            Phase::Settled { first } => Some(NodeId(first)),
            Phase::Listening { .. } | Phase::Claiming { .. } => None,
        }
    }

    /// Does what is due. To be called a few times a second.
    pub fn tick(&mut self, now: Instant) -> Result<Vec<Action>, ClaimError> {
        self.machines.retain(|_, (_, at)| now.since(*at) < SILENCE_MAX);
        self.starting.retain(|_, at| now.since(*at) < LISTEN_TIME * 2);
        let mut actions = Vec::new();
        match self.phase {
            Phase::Listening { until } if now >= until => {
                if self.may_claim() {
                    self.secret.get_or_insert(self.own_secret);
                    actions.push(self.claim(now)?);
                    return Ok(actions);
                }
                if now.since(self.started) >= START_TIME_MAX {
                    return Err(ClaimError::NoAnswer);
                }
            }
            Phase::Claiming { first, until } if now >= until => {
                self.phase = Phase::Settled { first };
                actions.extend([self.announcement(now), Action::Settled]);
                return Ok(actions);
            }
            _ => {}
        }
        let is_due = |interval| self.last_sent.is_none_or(|at| now.since(at) >= interval);
        match self.phase {
            Phase::Listening { .. } if is_due(HELLO_INTERVAL) => {
                self.last_sent = Some(now);
                let incarnation = self.incarnation;
                actions.push(Action::Send(MachineMessage::Hello { incarnation }));
            }
            Phase::Settled { .. } if is_due(ANNOUNCE_INTERVAL) => {
                actions.push(self.announcement(now));
            }
            _ => {}
        }
        Ok(actions)
    }

    /// Handles a message to all machines.
    pub fn receive(
        &mut self,
        now: Instant,
        message: MachineMessage,
    ) -> Result<Vec<Action>, ClaimError> {
        match message {
            MachineMessage::Hello { incarnation } if incarnation != self.incarnation => {
                Ok(self.answer(now, incarnation))
            }
            MachineMessage::Announcement(other) if other.incarnation != self.incarnation => {
                self.note(now, other)
            }
            MachineMessage::Gone { incarnation } => {
                self.machines.remove(&incarnation);
                self.starting.remove(&incarnation);
                Ok(Vec::new())
            }
            // Its own.
            MachineMessage::Hello { .. } | MachineMessage::Announcement(_) => Ok(Vec::new()),
        }
    }

    /// Handles the answer to this machine's Hello.
    pub fn welcomed(&mut self, welcome: &Welcome) -> Result<(), ClaimError> {
        match (welcome.secret, self.secret) {
            (None, None) => Err(ClaimError::OtherCluster),
            (Some(_), Some(_)) if self.has_key => Err(ClaimError::OtherCluster),
            (Some(theirs), Some(ours)) if theirs != ours => Err(ClaimError::OtherCluster),
            (Some(theirs), _) => {
                self.secret = Some(theirs);
                Ok(())
            }
            (None, Some(_)) => Ok(()),
        }
    }

    fn answer(&mut self, now: Instant, incarnation: u64) -> Vec<Action> {
        let Phase::Settled { .. } = self.phase else {
            self.starting.insert(incarnation, now);
            return Vec::new();
        };
        let secret = self.secret.filter(|_| !self.has_key);
        vec![self.announcement(now), Action::Welcome(incarnation, Welcome { secret })]
    }

    fn note(&mut self, now: Instant, other: Announcement) -> Result<Vec<Action>, ClaimError> {
        let is_other_cluster = self.cluster().is_some_and(|cluster| cluster != other.cluster);
        self.machines.insert(other.incarnation, (other, now));
        match self.phase {
            Phase::Listening { .. } if is_other_cluster && other.is_settled => {
                Err(ClaimError::OtherCluster)
            }
            Phase::Settled { .. } if is_other_cluster => Ok(vec![Action::OtherCluster]),
            Phase::Listening { .. } => Ok(Vec::new()),
            Phase::Claiming { first, .. } => {
                let has_priority = other.is_settled || other.incarnation < self.incarnation;
                match has_priority && overlap(self.numbers(first), numbers_of(&other)) {
                    true => Ok(vec![self.claim(now)?]),
                    false => Ok(Vec::new()),
                }
            }
            Phase::Settled { first } => {
                if !overlap(self.numbers(first), numbers_of(&other)) {
                    return Ok(Vec::new());
                }
                match other.is_settled && other.incarnation < self.incarnation {
                    true => Err(ClaimError::Conflict),
                    // The other one gives way when it hears this.
                    false => Ok(vec![self.announcement(now)]),
                }
            }
        }
    }

    /// Whether the secret is known, or this machine is the first of a new cluster.
    fn may_claim(&self) -> bool {
        if self.secret.is_some() {
            return true;
        }
        let is_first = self.starting.keys().all(|other| *other > self.incarnation);
        is_first
            && self
                .machines
                .keys()
                .all(|other| *other > self.incarnation && !self.is_settled(*other))
    }

    fn is_settled(&self, incarnation: u64) -> bool {
        self.machines.get(&incarnation).is_some_and(|(machine, _)| machine.is_settled)
    }

    /// Claims the lowest free numbers.
    fn claim(&mut self, now: Instant) -> Result<Action, ClaimError> {
        let taken = |range: Range<u16>| {
            let mut machines = self.machines.values();
            machines.any(|(other, _)| {
                let has_priority = other.is_settled || other.incarnation < self.incarnation;
                has_priority && overlap(range.clone(), numbers_of(other))
            })
        };
        let last = NODES_MAX.checked_sub(self.processes);
        let full = ClaimError::Full { processes: self.processes };
        let mut firsts = 0..=last.ok_or(full)?;
        let first = firsts.find(|first| !taken(self.numbers(*first))).ok_or(full)?;
        self.phase = Phase::Claiming { first, until: now + CLAIM_TIME };
        Ok(self.announcement(now))
    }

    fn numbers(&self, first: u16) -> Range<u16> {
        first..first + self.processes
    }

    /// The announcement of this machine, which has or claims numbers and knows its cluster.
    fn announcement(&mut self, now: Instant) -> Action {
        self.last_sent = Some(now);
        let (first, is_settled) = match self.phase {
            Phase::Settled { first } => (first, true),
            Phase::Claiming { first, .. } => (first, false),
            Phase::Listening { .. } => unreachable!("a machine that listens claims nothing"),
        };
        Action::Send(MachineMessage::Announcement(Announcement {
            incarnation: self.incarnation,
            first,
            processes: self.processes,
            cluster: self.cluster().expect("a machine claims after it knows the secret"),
            format: self.format,
            is_settled,
        }))
    }
}

fn numbers_of(machine: &Announcement) -> Range<u16> {
    machine.first..machine.first.saturating_add(machine.processes)
}

fn overlap(one: Range<u16>, other: Range<u16>) -> bool {
    one.start < other.end && other.start < one.end
}

fn cluster_id(secret: &[u8; 32]) -> u64 {
    let id = derive(secret, b"watchfire cluster id");
    u64::from_be_bytes(id[..8].try_into().expect("eight bytes"))
}

fn derive(from: &[u8], purpose: &[u8]) -> [u8; 32] {
    let mut derived = [0; 32];
    let length_is_valid = Hkdf::<Sha256>::new(None, from).expand(purpose, &mut derived);
    length_is_valid.expect("32 bytes can be derived");
    derived
}

#[cfg(test)]
pub(crate) fn samples() -> Vec<Vec<u8>> {
    let announcement = Announcement {
        incarnation: 1,
        first: 2,
        processes: 3,
        cluster: 4,
        format: 5,
        is_settled: true,
    };
    let messages = [
        MachineMessage::Hello { incarnation: 1 },
        MachineMessage::Announcement(announcement),
        MachineMessage::Gone { incarnation: 1 },
    ];
    let encoded = messages.map(|message| postcard::to_stdvec(&message).expect("it is plain data"));
    crate::nats::tests::assert_all_variants::<MachineMessage>(&encoded, &mut [0; 64]);
    let welcome = postcard::to_stdvec(&Welcome { secret: Some([7; 32]) });
    [encoded.as_slice(), &[welcome.expect("it is plain data")]].concat()
}

#[cfg(test)]
mod tests {
    use watchfire_types::Rng;

    use super::*;

    const STEP: Duration = Duration::from_millis(50);

    struct Network {
        claims: Vec<Claim>,
        ended: Vec<Option<ClaimError>>,
        on_their_way: Vec<(u64, usize, Received)>,
        random: Rng,
        loss: u64,
        step: u64,
    }

    #[derive(Clone)]
    enum Received {
        ToAll(MachineMessage),
        Welcome(Welcome),
    }

    impl Network {
        fn new(seed: u64, loss: u64) -> Self {
            Network {
                claims: Vec::new(),
                ended: Vec::new(),
                on_their_way: Vec::new(),
                random: Rng::from_seed(seed),
                loss,
                step: 0,
            }
        }

        fn now(&self) -> Instant {
            Instant::ZERO + STEP * u32::try_from(self.step).unwrap()
        }

        fn start(&mut self, processes: u16, key: Option<&str>) {
            let incarnation = (self.step << 20) | self.random.below(1 << 20);
            let mut secret = [0; 32];
            self.random.fill(&mut secret);
            self.claims.push(Claim::new(self.now(), incarnation, (processes, 7), key, secret));
            self.ended.push(None);
        }

        fn act(&mut self, from: usize, actions: Result<Vec<Action>, ClaimError>) {
            match actions {
                Err(error) => self.ended[from] = Some(error),
                Ok(actions) => {
                    for action in actions {
                        match action {
                            Action::Send(message) => {
                                for to in 0..self.claims.len() {
                                    self.send(to, Received::ToAll(message.clone()));
                                }
                            }
                            Action::Welcome(incarnation, welcome) => {
                                let to =
                                    self.claims.iter().position(|c| c.incarnation == incarnation);
                                self.send(to.unwrap(), Received::Welcome(welcome));
                            }
                            Action::Settled | Action::OtherCluster => {}
                        }
                    }
                }
            }
        }

        fn send(&mut self, to: usize, message: Received) {
            if self.random.below(100) >= self.loss {
                self.on_their_way.push((self.step + self.random.below(4), to, message));
            }
        }

        fn run(&mut self, steps: u64) {
            for _ in 0..steps {
                let due: Vec<_> = self.on_their_way.extract_if(.., |m| m.0 <= self.step).collect();
                for (_, to, message) in due {
                    if self.ended[to].is_some() {
                        continue;
                    }
                    let now = self.now();
                    let actions = match message {
                        Received::ToAll(message) => self.claims[to].receive(now, message),
                        Received::Welcome(welcome) => {
                            self.claims[to].welcomed(&welcome).map(|()| Vec::new())
                        }
                    };
                    self.act(to, actions);
                }
                for index in 0..self.claims.len() {
                    if self.ended[index].is_none() {
                        let now = self.now();
                        let actions = self.claims[index].tick(now);
                        self.act(index, actions);
                    }
                }
                self.step += 1;
            }
        }
    }

    #[test]
    fn machines_that_start_at_any_time_get_numbers_of_their_own_and_one_secret() {
        for seed in 0..1_000 {
            let mut network = Network::new(seed, 0);
            for _ in 0..6 {
                let processes = 1 + network.random.below(20) as u16;
                network.start(processes, None);
                let pause = network.random.below(30);
                network.run(pause);
            }
            network.run(200);
            let mut numbers = Vec::new();
            for (claim, ended) in network.claims.iter().zip(&network.ended) {
                assert_eq!(*ended, None, "seed {seed}");
                let first = claim.first().unwrap_or_else(|| panic!("seed {seed}: not settled")).0;
                numbers.extend(claim.numbers(first));
                assert_eq!(claim.cluster(), network.claims[0].cluster(), "seed {seed}");
            }
            let count = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), count, "seed {seed}: two machines have the same number");
        }
    }

    #[test]
    fn a_machine_with_another_key_does_not_start() {
        for keys in [[Some("a"), Some("b")], [Some("a"), None], [None, Some("b")]] {
            let mut network = Network::new(1, 0);
            network.start(2, keys[0]);
            network.run(60);
            network.start(2, keys[1]);
            network.run(60);
            assert_eq!(network.ended, [None, Some(ClaimError::OtherCluster)], "{keys:?}");
        }
    }

    #[test]
    fn a_full_cluster_refuses_a_machine() {
        let mut network = Network::new(1, 0);
        network.start(NODES_MAX - 1, None);
        network.run(60);
        network.start(2, None);
        network.run(60);
        assert_eq!(network.ended, [None, Some(ClaimError::Full { processes: 2 })]);
        network.start(1, None);
        network.run(60);
        assert_eq!(network.claims[2].first(), Some(NodeId(NODES_MAX - 1)));
    }

    #[test]
    fn after_a_partition_the_later_of_two_machines_with_the_same_numbers_ends() {
        let mut network = Network::new(1, 100);
        network.start(2, Some("a"));
        network.run(10);
        network.start(2, Some("a"));
        network.run(60);
        assert_eq!(network.claims[0].first(), network.claims[1].first());
        network.loss = 0;
        network.run(60);
        assert_eq!(network.ended, [None, Some(ClaimError::Conflict)]);
    }
}
