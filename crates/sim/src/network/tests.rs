use super::*;
use watchfire_types::Rng;

const MB: u64 = 1_000_000;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn path(delay_millis: u64) -> Path {
    Path { delay: Duration::from_millis(delay_millis), jitter: Duration::ZERO, loss: 0.0 }
}

/// Runs all steps. Returns each message and its arrival in seconds.
fn run(network: &mut Network<u32>) -> Vec<(u32, f64)> {
    let mut arrived = Vec::new();
    while let Some(now) = network.step() {
        while let Some(arrival) = network.poll_arrival() {
            if let Arrival::Message { message, .. } = arrival {
                arrived.push((message, now.since(Instant::ZERO).as_secs_f64()));
            }
        }
    }
    arrived
}

fn network(hosts: &[(u64, u64)]) -> (Network<u32>, Vec<Host>) {
    let mut network = Network::new(NetworkLimits::default(), 1);
    let hosts = hosts.iter().map(|&(up, down)| network.add(Access { up, down })).collect();
    (network, hosts)
}

#[track_caller]
fn assert_near(found: f64, expected: f64, part: f64) {
    assert!((found / expected - 1.0).abs() < part, "{found} is not near {expected}");
}

#[test]
fn a_small_message_takes_the_delay_and_its_time_on_both_links() {
    let (mut network, hosts) = network(&[(MB, MB), (MB, MB)]);
    network.open(hosts[0], hosts[1], path(40));
    network.send(Instant::ZERO, hosts[0], hosts[1], 5000, 7);
    assert_eq!(run(&mut network), [(7, 0.05)]);
}

#[test]
fn a_long_message_takes_its_time_on_the_slower_link() {
    for links in [[(10 * MB, MB), (MB, 90 * MB)], [(90 * MB, MB), (MB, 10 * MB)]] {
        let (mut network, hosts) = network(&links);
        network.open(hosts[0], hosts[1], path(10));
        network.send(Instant::ZERO, hosts[0], hosts[1], 100 * MB, 1);
        assert_near(run(&mut network)[0].1, 10.0, 0.03);
    }
}

#[test]
fn an_uplink_is_shared_evenly() {
    let (mut network, hosts) = network(&[(10 * MB, 100 * MB); 5]);
    for to in 1..5 {
        network.open(hosts[0], hosts[to], path(5 * to as u64));
        network.send(Instant::ZERO, hosts[0], hosts[to], 10 * MB, to as u32);
    }
    let arrived = run(&mut network);
    assert_eq!(arrived.len(), 4);
    arrived.iter().for_each(|(_, at)| assert_near(*at, 4.0, 0.06));
}

#[test]
fn a_downlink_is_shared_and_never_idle() {
    let (mut network, hosts) = network(&[(10 * MB, 10 * MB); 5]);
    for from in 1..5 {
        network.open(hosts[from], hosts[0], path(10));
        network.send(Instant::ZERO, hosts[from], hosts[0], 25 * MB, from as u32);
    }
    let arrived = run(&mut network);
    let (first, last) = (arrived[0].1, arrived[3].1);
    assert_near(last, 10.0, 0.05);
    // As with TCP, chance decides which connection slows down.
    assert_near(first, 10.0, 0.35);
}

#[test]
fn a_connection_leaves_the_unused_part_of_its_share_to_others() {
    // One receiver takes 1 MB per second; the other gets the remaining 9.
    let (mut network, hosts) = network(&[(10 * MB, MB), (MB, MB), (MB, 100 * MB)]);
    for to in 1..3 {
        network.open(hosts[0], hosts[to], path(5));
    }
    network.send(Instant::ZERO, hosts[0], hosts[1], 10 * MB, 1);
    network.send(Instant::ZERO, hosts[0], hosts[2], 80 * MB, 2);
    let arrived = run(&mut network);
    assert_eq!(arrived[0].0, 2);
    assert_near(arrived[0].1, 80.0 / 9.0, 0.08);
    assert_near(arrived[1].1, 10.0, 0.08);
}

#[test]
fn every_byte_that_is_sent_is_received_once() {
    let (mut network, hosts) = network(&[(3 * MB, 5 * MB); 8]);
    let mut rng = Rng::from_seed(5);
    let lossy = Path { loss: 0.01, jitter: millis(3), ..path(20) };
    let mut sent = 0;
    for a in 0..8 {
        for b in 0..a {
            network.open(hosts[a], hosts[b], lossy);
        }
    }
    for message in 0..200 {
        let from = rng.below(8);
        let to = (from + 1 + rng.below(7)) % 8;
        let bytes = 1 + rng.below(MB);
        let (from, to) = (hosts[from as usize], hosts[to as usize]);
        network.send(Instant::ZERO, from, to, bytes, message);
        sent += bytes;
    }
    let mut arrived: Vec<u32> = run(&mut network).into_iter().map(|(message, _)| message).collect();
    arrived.sort_unstable();
    assert_eq!(arrived, (0..200).collect::<Vec<_>>());
    let traffic = hosts.iter().map(|host| network.traffic(*host));
    let sums = traffic.fold((0, 0), |sums, (up, down)| (sums.0 + up, sums.1 + down));
    assert_eq!(sums, (sent, sent));
}

#[test]
fn messages_of_a_connection_stay_in_order_in_spite_of_losses() {
    let (mut network, hosts) = network(&[(MB, MB), (MB, MB)]);
    network.open(hosts[0], hosts[1], Path { loss: 0.2, jitter: millis(50), ..path(30) });
    (0..100).for_each(|n| network.send(Instant::ZERO, hosts[0], hosts[1], 3000, n));
    let order: Vec<u32> = run(&mut network).into_iter().map(|(message, _)| message).collect();
    assert_eq!(order, (0..100).collect::<Vec<_>>());
}

#[test]
fn messages_sent_ahead_overtake_messages_that_the_kernel_does_not_have_and_stay_in_order() {
    let (mut network, hosts) = network(&[(MB, MB), (MB, MB)]);
    network.open(hosts[0], hosts[1], path(1));
    network.send(Instant::ZERO, hosts[0], hosts[1], MB, 0);
    network.send(Instant::ZERO, hosts[0], hosts[1], MB, 1);
    (2..4).for_each(|n| network.send_ahead(Instant::ZERO, hosts[0], hosts[1], 1000, n));
    let arrived = run(&mut network);
    assert_eq!(arrived.iter().map(|(message, _)| *message).collect::<Vec<_>>(), [2, 3, 0, 1]);
    // They wait for the chunk that was sent, for the kernel's buffer, and for the rest of their
    // chunk.
    assert_near(arrived[1].1, 0.28, 0.05);
    assert_near(arrived[3].1, 2.1, 0.1);
}

#[test]
fn loss_on_a_long_path_is_as_costly_as_with_tcp() {
    let rate_at = |loss| {
        let (mut network, hosts) = network(&[(100 * MB, 100 * MB); 2]);
        network.open(hosts[0], hosts[1], Path { loss, ..path(50) });
        network.send(Instant::ZERO, hosts[0], hosts[1], 500 * MB, 1);
        500.0 / run(&mut network)[0].1
    };
    let (clean, rare, often) = (rate_at(0.0), rate_at(0.000_1), rate_at(0.01));
    assert!(clean > 80.0, "{clean} MB/s");
    // CUBIC's own formula: 1.17 (RTT / loss³)^¼ segments per round trip, 3.1 MB/s and 0.1 MB/s.
    assert!((1.5..6.0).contains(&rare), "{rare} MB/s");
    assert!((0.05..0.6).contains(&often), "{often} MB/s");
}

#[test]
fn a_connection_starts_slowly() {
    let (mut network, hosts) = network(&[(100 * MB, 100 * MB); 2]);
    network.open(hosts[0], hosts[1], path(100));
    network.send(Instant::ZERO, hosts[0], hosts[1], 400_000, 1);
    let at = run(&mut network)[0].1;
    // 14.6, 29.2, 58.4, 116.8 and 233.6 kB: five trips in one direction, four in the other.
    assert_near(at, 0.9, 0.05);
}

#[test]
fn a_connection_reports_when_its_send_buffer_has_room_again() {
    let (mut network, hosts) = network(&[(MB, MB), (MB, MB)]);
    let (from, to) = (hosts[0], hosts[1]);
    network.open(from, to, path(1));
    let all = network.room(from, to);
    network.send(Instant::ZERO, from, to, all, 1);
    // A chunk leaves immediately.
    assert_eq!(network.room(from, to), 6000);
    let mut reported = Vec::new();
    while network.step().is_some() {
        while let Some(arrival) = network.poll_arrival() {
            reported.extend(match arrival {
                Arrival::Room { bytes, .. } => Some(bytes),
                _ => None,
            });
        }
    }
    // Sending takes two seconds, with a report every quarter of a second.
    assert!((8..=9).contains(&reported.len()), "{reported:?}");
    assert!(reported.is_sorted() && reported.last() == Some(&all), "{reported:?}");
}

#[test]
fn bytes_in_flight_are_lost_with_their_connection() {
    let (mut network, hosts) = network(&[(MB, MB), (MB, MB)]);
    network.open(hosts[0], hosts[1], path(10));
    network.send(Instant::ZERO, hosts[0], hosts[1], MB, 1);
    network.step();
    network.close(hosts[0], hosts[1]);
    assert_eq!(network.room(hosts[0], hosts[1]), 0);
    network.open(hosts[0], hosts[1], path(10));
    network.send(Instant::ZERO, hosts[0], hosts[1], 10, 2);
    let arrived = run(&mut network);
    assert_eq!(arrived.iter().map(|(message, _)| *message).collect::<Vec<_>>(), [2]);
}

#[test]
fn bytes_and_messages_take_cpu_time() {
    let processors = Processors {
        cores: 2,
        are_shared: false,
        message: millis(100),
        send: 5 * MB,
        receive: 2 * MB,
    };
    let arrived = |processors| {
        let limits = NetworkLimits { processors: Some(processors), ..NetworkLimits::default() };
        let mut network = Network::new(limits, 1);
        let fast = Access { up: 1000 * MB, down: 1000 * MB };
        let hosts: Vec<Host> = (0..4).map(|_| network.add(fast)).collect();
        for (from, to) in [(0, 1), (2, 3)] {
            network.open(hosts[from], hosts[to], path(1));
            network.send(Instant::ZERO, hosts[from], hosts[to], 10 * MB, from as u32);
        }
        run(&mut network)
    };
    // Two seconds to send and five to receive, which overlap. One connection uses one core.
    let own = arrived(processors);
    own.iter().for_each(|(_, at)| assert!((2.5..5.5).contains(at), "{own:?}"));
    // Two pairs on two cores have 2 × 7.2 seconds of work.
    let shared = arrived(Processors { are_shared: true, ..processors });
    assert_near(shared[1].1, 7.2, 0.1);
    let many = arrived(Processors { message: millis(2000), ..processors });
    assert!(many[1].1 > own[1].1 + 1.5, "{many:?}");
}

#[test]
fn a_host_sends_with_all_its_processors_and_with_one_on_each_connection() {
    let last = |cores, are_shared, connections: u64, up| {
        let (message, send, receive) = (Duration::ZERO, 5 * MB, 1000 * MB);
        let processors = Processors { cores, are_shared, message, send, receive };
        let limits = NetworkLimits { processors: Some(processors), ..NetworkLimits::default() };
        let mut network = Network::new(limits, 1);
        let from = network.add(Access { up, down: MB });
        for number in 0..connections {
            let to = network.add(Access { up: MB, down: 1000 * MB });
            network.open(from, to, path(1));
            network.send(Instant::ZERO, from, to, 20 * MB / connections, number as u32);
        }
        run(&mut network).last().expect("a message").1
    };
    let fast = 1000 * MB;
    assert_near(last(1, false, 4, fast), 4.0, 0.1);
    assert_near(last(4, false, 4, fast), 1.0, 0.1);
    assert_near(last(4, false, 1, fast), 4.0, 0.1);
    assert_near(last(4, false, 4, 10 * MB), 2.0, 0.1);
    // A host on a shared machine uses one core.
    assert_near(last(4, true, 4, fast), 4.0, 0.1);
}
