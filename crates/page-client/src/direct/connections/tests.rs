use super::*;
use crate::segment::Segment;

const SIDES: [PeerId; 2] = [PeerId(1), PeerId(2)];

/// Two peers whose signals and datagrams arrive after a millisecond.
struct Pair {
    sides: [DirectConnections; 2],
    now: Instant,
    /// Whether the network drops all datagrams.
    is_cut: bool,
    /// The outputs of each side, except signals and datagrams.
    events: [Vec<Output>; 2],
}

impl Pair {
    fn new() -> Self {
        let side = |index: usize| {
            let address = SocketAddr::from(([10, 0, 0, 1 + index as u8], 9));
            let addresses = Box::new(move || vec![address]);
            let mut side =
                DirectConnections::new(StdInstant::now(), DirectLimit::new(4), addresses);
            side.set_me(SIDES[index]);
            side
        };
        Pair {
            sides: [side(0), side(1)],
            now: Instant::ZERO,
            is_cut: false,
            events: [vec![], vec![]],
        }
    }

    /// One millisecond.
    fn step(&mut self) {
        self.now += Duration::from_millis(1);
        for index in 0..2 {
            if self.sides[index].next_wake().is_some_and(|at| at <= self.now) {
                self.sides[index].handle_tick(self.now);
            }
        }
        let outputs = self.sides.each_mut().map(|side| side.outputs.split_off(0));
        for (index, outputs) in outputs.into_iter().enumerate() {
            let other = &mut self.sides[1 - index];
            for output in outputs {
                match output {
                    Output::Signal { bytes, .. } => {
                        other.handle_signal(self.now, SIDES[index], &bytes);
                    }
                    Output::Datagram(datagram) if !self.is_cut => {
                        other.handle_datagram(self.now, &datagram);
                    }
                    Output::Datagram(_) => {}
                    output => self.events[index].push(output),
                }
            }
        }
    }

    fn run_until(&mut self, what: &str, is_done: impl Fn(&Pair) -> bool) {
        for _ in 0..120_000 {
            if is_done(self) {
                return;
            }
            self.step();
        }
        panic!("no {what} within two minutes");
    }

    fn are_up(&self) -> bool {
        self.sides[0].is_up(SIDES[1]) && self.sides[1].is_up(SIDES[0])
    }

    fn connected() -> Self {
        let mut pair = Pair::new();
        assert!(pair.sides[0].call(pair.now, SIDES[1]));
        pair.run_until("connection", Pair::are_up);
        pair
    }

    fn has_ended(&self, index: usize) -> bool {
        self.events[index].iter().any(|event| matches!(event, Output::Ended { .. }))
    }

    fn misbehaviour(&self, index: usize) -> Option<&'static str> {
        self.events[index].iter().find_map(|event| match event {
            Output::Misbehaved { reason, .. } => Some(*reason),
            _ => None,
        })
    }

    fn segments(&self, index: usize) -> Vec<&Segment> {
        let segments = self.events[index].iter().filter_map(|event| match event {
            Output::Segment { segment, .. } => Some(segment),
            _ => None,
        });
        segments.collect()
    }
}

fn message(id: u32, len: usize) -> UnsentMessage {
    UnsentMessage { id, bytes: vec![7; len].into(), is_reported: false }
}

#[test]
fn a_call_connects_two_peers_and_moves_messages_both_ways() {
    let mut pair = Pair::connected();
    assert!(pair.now < Instant::ZERO + Duration::from_secs(1), "{:?}", pair.now);
    pair.sides[0].send(pair.now, SIDES[1], message(3, 2 << 20));
    pair.sides[1].send(pair.now, SIDES[0], message(9, 5));
    let bytes = |pair: &Pair, index| -> usize {
        pair.segments(index).iter().map(|segment| segment.bytes.len()).sum()
    };
    pair.run_until("messages", |pair| bytes(pair, 1) == 2 << 20 && bytes(pair, 0) == 5);
    let sent = Output::Sent { peer: SIDES[1], bytes: 2 << 20 };
    assert!(pair.events[0].contains(&sent));
    pair.sides[1].acknowledge(pair.now, SIDES[0], 3);
    pair.sides[0].acknowledge(pair.now, SIDES[1], 9);
    pair.run_until("end of an idle connection", |pair| pair.has_ended(0) && pair.has_ended(1));
}

#[test]
fn when_both_peers_call_one_call_counts() {
    let mut pair = Pair::new();
    assert!(pair.sides[0].call(pair.now, SIDES[1]) && pair.sides[1].call(pair.now, SIDES[0]));
    pair.run_until("connection", Pair::are_up);
    assert_eq!((pair.misbehaviour(0), pair.misbehaviour(1)), (None, None));
}

#[test]
fn unread_messages_are_returned_when_the_network_breaks() {
    let mut pair = Pair::connected();
    pair.is_cut = true;
    pair.sides[0].send(pair.now, SIDES[1], message(1, 100_000));
    pair.run_until("end", |pair| pair.has_ended(0));
    let unread = UnsentMessage { is_reported: true, ..message(1, 100_000) };
    let down = Output::Down { peer: SIDES[1], unread: vec![unread] };
    assert!(pair.events[0].contains(&down));
    assert!(!pair.sides[0].call(pair.now, SIDES[1]), "the next call has to wait");
}

#[test]
fn a_peer_that_never_connects_is_given_up_after_three_calls() {
    let mut pair = Pair::new();
    pair.is_cut = true;
    let mut calls = 0;
    for _ in 0..200_000 {
        calls += u32::from(pair.sides[0].call(pair.now, SIDES[1]));
        pair.step();
    }
    assert_eq!(calls, FAILURES_MAX);
    assert!(pair.sides.iter().all(|side| side.calls.is_empty()));
}

#[test]
fn a_peer_may_let_any_number_of_its_calls_fail() {
    let mut caller = Pair::new().sides.into_iter().next().unwrap();
    let mut pair = Pair::new();
    for _ in 0..40 {
        assert!(caller.call(Instant::ZERO, SIDES[1]));
        let number = caller.next_call;
        let signals = caller.outputs.split_off(0);
        let offers = signals.into_iter().filter_map(|output| match output {
            Output::Signal { bytes, .. } => Some(bytes),
            _ => None,
        });
        let hang_up = Signal::HangUp { call: number, reason: HangUpReason::Failed }.encode();
        for bytes in offers.chain([hang_up]) {
            pair.sides[1].handle_signal(pair.now, SIDES[0], &bytes);
        }
        caller.forget(Instant::ZERO, SIDES[1]);
        pair.now += CALLS_PERIOD;
    }
    pair.events[1] = pair.sides[1].outputs.split_off(0).into();
    assert!(pair.has_ended(1));
    assert_eq!(pair.misbehaviour(1), None);
    assert!(!pair.sides[1].call(pair.now, SIDES[0]), "too many calls failed");
}

#[test]
fn calls_beyond_the_limit_are_answered_with_busy() {
    let mut pair = Pair::new();
    pair.sides[1].limit = DirectLimit::new(0);
    assert!(!pair.sides[1].call(pair.now, SIDES[0]));
    pair.sides[0].call(pair.now, SIDES[1]);
    pair.run_until("end", |pair| pair.has_ended(0));
    assert!(pair.now < Instant::ZERO + Duration::from_secs(1));
}

/// The side at index 1 as it gets these signals from the other peer, which is calling or not.
fn misbehaviour_of(is_calling: bool, signals: &[Signal]) -> Option<&'static str> {
    let mut pair = Pair::new();
    let side = &mut pair.sides[1];
    if is_calling {
        assert!(side.call(pair.now, SIDES[0]));
    }
    for signal in signals {
        side.handle_signal(pair.now, SIDES[0], &signal.encode());
    }
    pair.events[1] = pair.sides[1].outputs.split_off(0).into();
    pair.misbehaviour(1)
}

#[test]
fn invalid_and_too_many_signals_are_misbehaviour() {
    let sdp = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n\
        m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\n";
    let sdp = || sdp.to_owned();
    let nonsense = || format!("{}a=nonsense:\0\r\nxyz", sdp());
    let offer = |call| Signal::Offer { call, sdp: nonsense() };
    assert!(misbehaviour_of(false, &[offer(1)]).is_some());
    assert!(misbehaviour_of(false, &[Signal::Offer { call: 1, sdp: sdp() }]).is_some());
    let answer = |sdp| [Signal::Answer { call: 1, sdp }];
    assert!(misbehaviour_of(true, &answer(nonsense())).is_some());
    assert!(misbehaviour_of(true, &answer(sdp())).is_some());
    assert_eq!(misbehaviour_of(false, &answer(nonsense())), None, "the call has ended");
    let hang_up = |call| Signal::HangUp { call, reason: HangUpReason::Over };
    let flood: Vec<_> = (0..SIGNALS_MAX + 1).map(hang_up).collect();
    assert_eq!(misbehaviour_of(false, &flood), Some("too many signals"));
}

#[test]
fn invalid_datagrams_have_no_effect() {
    let mut pair = Pair::connected();
    let from = SocketAddr::from(([10, 0, 0, 1], 9));
    for bytes in [vec![], vec![0], vec![22; 40], vec![255; 1500], vec![0; 20]] {
        let datagram = Datagram { from, to: from, bytes };
        pair.sides[1].handle_datagram(pair.now, &datagram);
    }
    pair.sides[0].send(pair.now, SIDES[1], message(1, 10));
    pair.run_until("message", |pair| !pair.segments(1).is_empty());
}
