use super::*;
use crate::segment::Segment;

const SIDES: [PeerId; 2] = [PeerId(1), PeerId(2)];

/// Two peers whose signals and datagrams arrive after a millisecond.
struct Pair {
    sides: [DirectConnections; 2],
    now: Instant,
    /// Whether the network drops all datagrams.
    is_cut: bool,
    /// The receiver at index 1, if it is slow.
    slow: Option<SlowReceiver>,
    /// Whether descriptions announce receipts.
    has_receipts: bool,
    wire: Option<Wire>,
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
            slow: None,
            has_receipts: true,
            wire: None,
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
                    Output::Signal { mut bytes, .. } => {
                        if !self.has_receipts {
                            bytes = without_receipts(&bytes);
                        }
                        other.handle_signal(self.now, SIDES[index], &bytes);
                    }
                    Output::Datagram(datagram) if !self.is_cut => {
                        match (&mut self.slow, &mut self.wire) {
                            (Some(slow), _) if index == 0 => slow.queue(datagram),
                            (_, Some(wire)) => wire.queue(self.now, index, datagram),
                            _ => other.handle_datagram(self.now, &datagram),
                        }
                    }
                    Output::Datagram(_) => {}
                    output => self.events[index].push(output),
                }
            }
        }
        if let Some(slow) = &mut self.slow {
            for datagram in slow.read() {
                self.sides[1].handle_datagram(self.now, &datagram);
            }
        }
        for (index, side) in self.sides.iter_mut().enumerate() {
            while let Some(datagram) =
                self.wire.as_mut().and_then(|wire| wire.arrived(self.now, index))
            {
                side.handle_datagram(self.now, &datagram);
            }
        }
    }

    /// Lets the side at index 1 read whole messages until it has read so many bytes of them. Returns the time.
    fn read_messages(&mut self, total: usize) -> Duration {
        let begun_at = self.now;
        let (mut read, mut unread) = (0, BTreeMap::<u32, usize>::new());
        while read < total {
            self.step();
            assert!(self.now.since(begun_at) < Duration::from_secs(100), "{read} bytes were read");
            for event in std::mem::take(&mut self.events[1]) {
                let Output::Segment { segment, .. } = event else { continue };
                let bytes = unread.entry(segment.message).or_default();
                *bytes += segment.bytes.len();
                if *bytes == segment.total {
                    read += segment.total;
                    self.sides[1].acknowledge(self.now, SIDES[0], segment.message);
                }
            }
        }
        self.now.since(begun_at)
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

/// A program that reads some datagrams each millisecond. Its operating system drops those that do not fit into the buffer.
struct SlowReceiver {
    buffer: VecDeque<Datagram>,
    buffered_max: usize,
    read_max: usize,
    dropped: usize,
}

impl SlowReceiver {
    fn queue(&mut self, datagram: Datagram) {
        if self.buffer.len() < self.buffered_max {
            self.buffer.push_back(datagram);
        } else {
            self.dropped += 1;
        }
    }

    fn read(&mut self) -> Vec<Datagram> {
        self.buffer.drain(..self.read_max.min(self.buffer.len())).collect()
    }
}

/// A line with a delay each way. From index 0 it has a rate, and a queue that drops what does not fit.
struct Wire {
    bytes_per_second: f64,
    one_way: Duration,
    queue_bytes: usize,
    free_at: Instant,
    sent_bytes: usize,
    dropped: usize,
    /// By the side that they go to, with the time of their arrival.
    under_way: [VecDeque<(Instant, Datagram)>; 2],
}

impl Wire {
    fn new(bytes_per_second: f64, one_way: Duration, queue_bytes: usize) -> Self {
        Wire {
            bytes_per_second,
            one_way,
            queue_bytes,
            free_at: Instant::ZERO,
            sent_bytes: 0,
            dropped: 0,
            under_way: Default::default(),
        }
    }

    fn queue(&mut self, now: Instant, from: usize, datagram: Datagram) {
        let mut leaves_at = now;
        if from == 0 {
            self.sent_bytes += datagram.bytes.len();
            let queued = self.free_at.since(now).as_secs_f64() * self.bytes_per_second;
            if queued + datagram.bytes.len() as f64 > self.queue_bytes as f64 {
                self.dropped += 1;
                return;
            }
            let seconds = datagram.bytes.len() as f64 / self.bytes_per_second;
            self.free_at = self.free_at.max(now) + Duration::from_secs_f64(seconds);
            leaves_at = self.free_at;
        }
        self.under_way[1 - from].push_back((leaves_at + self.one_way, datagram));
    }

    fn arrived(&mut self, now: Instant, to: usize) -> Option<Datagram> {
        self.under_way[to].pop_front_if(|(at, _)| *at <= now).map(|(_, datagram)| datagram)
    }
}

fn without_receipts(signal: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(signal).expect("a signal is JSON");
    text.replace(r#","receipts":true"#, "").into_bytes()
}

fn message(id: u32, len: usize) -> UnsentMessage {
    UnsentMessage { id, bytes: vec![7; len].into(), is_reported: false, is_relayed: false }
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

/// Without a window of our own, each of them waits two seconds for SCTP to notice a lost end of a burst.
#[test]
fn a_receiver_with_a_small_buffer_gets_messages_without_long_pauses() {
    const BYTES: usize = 2 << 20;
    for (buffered_max, read_max) in [(90, 5), (180, 30)] {
        let mut pair = Pair::connected();
        let slow = SlowReceiver { buffer: VecDeque::new(), buffered_max, read_max, dropped: 0 };
        pair.slow = Some(slow);
        let begun_at = pair.now;
        for id in 0..2 {
            pair.sides[0].send(pair.now, SIDES[1], message(id, BYTES / 2));
        }
        let mut received = 0;
        while received < BYTES {
            pair.step();
            let events = std::mem::take(&mut pair.events[1]).into_iter();
            received += events
                .map(|event| match event {
                    Output::Segment { segment, .. } => segment.bytes.len(),
                    _ => 0,
                })
                .sum::<usize>();
        }
        let seconds = pair.now.since(begun_at).as_secs_f64();
        // A datagram has about 1,100 bytes of a message.
        let fastest = BYTES as f64 / (1100.0 * 1000.0 * read_max as f64);
        let dropped = pair.slow.map_or(0, |slow| slow.dropped);
        let what = format!("{seconds} s instead of {fastest:.2} s, {dropped} datagrams dropped");
        assert!(seconds < fastest + 1.6 && dropped < 80, "{what}");
    }
}

/// Without a window from receipts, SCTP doubles its own until the queue overflows, and repeats what it lost.
#[test]
fn receipts_keep_a_long_line_full_and_its_queue_from_overflowing() {
    const BYTES: usize = 256 << 10;
    const MESSAGES: u32 = 8;
    for (mbit, one_way, queue_bytes, bounds_max) in
        [(100.0, 25, 512 << 10, 6.0), (5.0, 25, 256 << 10, 1.3)]
    {
        let mut pair = Pair::connected();
        let rate = mbit * 125e3;
        pair.wire = Some(Wire::new(rate, Duration::from_millis(one_way), queue_bytes));
        for id in 0..MESSAGES {
            pair.sides[0].send(pair.now, SIDES[1], message(id, BYTES));
        }
        let total = MESSAGES as usize * BYTES;
        let bounds = pair.read_messages(total).as_secs_f64() * rate / total as f64;
        let wire = pair.wire.expect("it is there");
        let sent = wire.sent_bytes as f64 / total as f64;
        let line = format!("{mbit} Mbit/s, {one_way} ms, {queue_bytes} bytes");
        let what = format!("{line}: {bounds} times the bound, {sent}, {} lost", wire.dropped);
        assert!(wire.dropped == 0 && sent < 1.1 && bounds < bounds_max, "{what}");
    }
}

/// As of a program from before receipts: its descriptions do not announce any.
#[test]
fn a_peer_without_receipts_gets_messages_and_no_marks() {
    let mut pair = Pair::new();
    pair.has_receipts = false;
    assert!(pair.sides[0].call(pair.now, SIDES[1]));
    pair.run_until("connection", Pair::are_up);
    let slow = SlowReceiver { buffer: VecDeque::new(), buffered_max: 90, read_max: 5, dropped: 0 };
    pair.slow = Some(slow);
    pair.sides[0].send(pair.now, SIDES[1], message(1, 1 << 20));
    let time = pair.read_messages(1 << 20);
    assert!(time < Duration::from_millis(800), "{time:?}");
    // A receipt for a mark would be misbehaviour.
    assert_eq!((pair.misbehaviour(0), pair.are_up()), (None, true));
}

#[test]
fn an_open_connection_survives_a_lost_signal() {
    let mut pair = Pair::connected();
    let number = pair.sides[0].next_call;
    for index in 0..2 {
        pair.sides[index].handle_lost_signal(pair.now, SIDES[1 - index], number);
    }
    pair.sides[0].send(pair.now, SIDES[1], message(1, 50_000));
    pair.run_until("message", |pair| {
        pair.segments(1).iter().map(|segment| segment.bytes.len()).sum::<usize>() == 50_000
    });
    assert!(pair.are_up() && !pair.has_ended(0) && !pair.has_ended(1));
}

#[test]
fn a_call_whose_offer_is_lost_has_failed() {
    let mut pair = Pair::new();
    assert!(pair.sides[0].call(pair.now, SIDES[1]));
    let number = pair.sides[0].next_call;
    pair.sides[0].outputs.clear();
    pair.sides[0].handle_lost_signal(pair.now, SIDES[1], number);
    assert!(pair.sides[0].calls.is_empty());
    assert!(pair.sides[0].outputs.contains(&Output::Ended { peer: SIDES[1] }));
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
    pair.sides[0].send(pair.now, SIDES[1], message(1, 50_000));
    pair.run_until("end", |pair| pair.has_ended(0));
    let unread = UnsentMessage { is_reported: true, ..message(1, 50_000) };
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
    let offer = |call| Signal::Offer { call, sdp: nonsense(), receipts: true };
    assert!(misbehaviour_of(false, &[offer(1)]).is_some());
    assert!(
        misbehaviour_of(false, &[Signal::Offer { call: 1, sdp: sdp(), receipts: true }]).is_some()
    );
    let answer = |sdp| [Signal::Answer { call: 1, sdp, receipts: true }];
    assert!(misbehaviour_of(true, &answer(nonsense())).is_some());
    assert!(misbehaviour_of(true, &answer(sdp())).is_some());
    assert_eq!(misbehaviour_of(false, &answer(nonsense())), None, "the call has ended");
    let hang_up = |call| Signal::HangUp { call, reason: HangUpReason::Over };
    let flood: Vec<_> = (0..SIGNALS_MAX + 1).map(hang_up).collect();
    assert_eq!(misbehaviour_of(false, &flood), Some("too many signals"));
}

#[test]
fn one_call_has_a_limited_number_of_offers_and_candidates() {
    let mut caller = Pair::new().sides.into_iter().next().unwrap();
    assert!(caller.call(Instant::ZERO, SIDES[1]));
    let call = caller.next_call;
    let offer = caller.outputs.iter().find_map(|output| match output {
        Output::Signal { bytes, .. } => Signal::decode(bytes),
        _ => None,
    });
    let Some(Signal::Offer { sdp, .. }) = offer else { panic!("{offer:?}") };
    let restart = |number: u32| Signal::Offer {
        call,
        sdp: format!("{sdp}a=x-restart:{number}\r\n"),
        receipts: true,
    };
    let restarts: Vec<_> = (0..7).map(restart).collect();
    assert_eq!(misbehaviour_of(false, &restarts[..6]), None);
    assert_eq!(misbehaviour_of(false, &restarts), Some("too many offers in one call"));
    let candidate = |host| super::super::signal::IceCandidate {
        candidate: format!("candidate:1 1 udp 1 10.0.1.{host} 9 typ host"),
        sdp_mid: None,
        sdp_m_line_index: Some(0),
    };
    let candidates = || Signal::Candidates { call, candidates: (0..16).map(candidate).collect() };
    let flood: Vec<_> = [restart(0)].into_iter().chain((0..25).map(|_| candidates())).collect();
    assert_eq!(misbehaviour_of(false, &flood[..25]), None);
    assert_eq!(misbehaviour_of(false, &flood), Some("too many candidates in one call"));
}

#[test]
fn no_datagram_goes_to_addresses_of_this_machine_or_its_link() {
    const OWN: [&str; 7] =
        ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "169.254.1.1", "fe80::1", "0.0.0.0"];
    let mut pair = Pair::new();
    assert!(pair.sides[0].call(pair.now, SIDES[1]));
    let candidate = |ip: &str| format!("candidate:1 1 udp 2130706431 {ip} 7 typ host");
    for output in pair.sides[0].outputs.split_off(0) {
        let Output::Signal { bytes, .. } = output else { continue };
        let Some(Signal::Offer { call, sdp, .. }) = Signal::decode(&bytes) else { continue };
        let lines = OWN.map(|ip| format!("a={}\r\n", candidate(ip))).concat();
        let offer = Signal::Offer { call, sdp: format!("{sdp}{lines}"), receipts: true };
        let candidates = OWN.map(|ip| super::super::signal::IceCandidate {
            candidate: candidate(ip),
            sdp_mid: None,
            sdp_m_line_index: Some(0),
        });
        let candidates = Signal::Candidates { call, candidates: candidates.into() };
        for signal in [offer, candidates] {
            pair.sides[1].handle_signal(pair.now, SIDES[0], &signal.encode());
        }
    }
    let mut receivers = std::collections::BTreeSet::new();
    while pair.now < Instant::ZERO + Duration::from_secs(5) {
        pair.now += Duration::from_millis(10);
        pair.sides[1].handle_tick(pair.now);
        for output in pair.sides[1].outputs.split_off(0) {
            if let Output::Datagram(datagram) = output {
                receivers.insert(datagram.to);
            }
        }
    }
    assert_eq!(receivers.iter().collect::<Vec<_>>(), [&SocketAddr::from(([10, 0, 0, 1], 9))]);
}

#[test]
fn a_peer_that_answers_and_finishes_no_handshake_holds_a_connection_for_15_seconds() {
    let mut pair = Pair::new();
    pair.is_cut = true;
    assert!(pair.sides[0].call(pair.now, SIDES[1]));
    pair.run_until("end of the call", |pair| pair.has_ended(0) && pair.has_ended(1));
    let expected = Instant::ZERO + Duration::from_secs(15);
    assert!(pair.now >= expected && pair.now < expected + Duration::from_secs(1), "{:?}", pair.now);
    assert!(pair.sides.iter().all(|side| side.limit.acquire().is_some() && side.calls.is_empty()));
}

/// The peer receives all messages, but reads none.
#[test]
fn a_peer_that_reads_nothing_gets_few_messages_and_loses_its_connection() {
    let mut pair = Pair::connected();
    for id in 0..20 {
        pair.sides[0].send(pair.now, SIDES[1], message(id, 1 << 20));
    }
    let is_down =
        |pair: &Pair| pair.events[0].iter().any(|event| matches!(event, Output::Down { .. }));
    pair.run_until("break", is_down);
    let received: usize = pair.segments(1).iter().map(|segment| segment.bytes.len()).sum();
    assert!(received <= 5 << 20, "{received} bytes were sent");
    pair.run_until("end", |pair| pair.has_ended(0));
    let down = pair.events[0].iter().find_map(|event| match event {
        Output::Down { unread, .. } => Some(unread.len()),
        _ => None,
    });
    assert_eq!(down, Some(20), "all messages are sent again");
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
