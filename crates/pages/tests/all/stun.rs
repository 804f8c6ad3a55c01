//! The behaviour of a responder on real UDP sockets.

use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

use watchfire_pages::stun::{RESPONSE_BYTES_MAX, Responder, StunLimits};
use watchfire_testkit::{DEADLINE, eventually};

fn start(address: &str, limits: &StunLimits) -> Responder {
    Responder::start(&[address.parse().unwrap()], false, limits).expect("an address is free")
}

fn client(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).expect("an address is free");
    socket.set_read_timeout(Some(DEADLINE)).expect("a timeout can be set");
    socket
}

fn request(transaction: &[u8; 12]) -> Vec<u8> {
    [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], transaction].concat()
}

fn answer_to(socket: &UdpSocket, responder: SocketAddr, transaction: &[u8; 12]) -> Vec<u8> {
    socket.send_to(&request(transaction), responder).unwrap();
    let mut answer = [0; RESPONSE_BYTES_MAX];
    let (bytes, from) = socket.recv_from(&mut answer).expect("an answer comes");
    assert_eq!(from, responder);
    assert_eq!(answer[8..20], *transaction);
    answer[..bytes].to_vec()
}

#[test]
fn a_request_is_answered_with_its_address_by_ipv4_and_ipv6() {
    for (here, bytes) in [("127.0.0.1:0", 32), ("[::1]:0", 44)] {
        let responder = start(here, &StunLimits::default());
        let socket = client(here);
        let answer = answer_to(&socket, responder.addresses()[0], b"twelve bytes");
        assert_eq!(answer.len(), bytes);
        let port = u16::from_be_bytes([answer[26] ^ 0x21, answer[27] ^ 0x12]);
        assert_eq!(port, socket.local_addr().unwrap().port());
        let totals = responder.counters().totals();
        assert_eq!((totals.answers, totals.outside), (1, 0), "a loopback address is this machine");
    }
}

#[test]
fn a_socket_for_both_families_returns_ipv4_as_ipv4() {
    let responder = start("[::]:0", &StunLimits::default());
    let port = responder.addresses()[0].port();
    let socket = client("127.0.0.1:0");
    let answer = answer_to(&socket, SocketAddr::from(([127, 0, 0, 1], port)), b"twelve bytes");
    assert_eq!((answer.len(), answer[25]), (32, 1));
}

#[test]
fn an_address_over_its_rate_gets_no_answers_and_others_still_do() {
    let limits = StunLimits { answers_per_second_per_address: 3, ..StunLimits::default() };
    let responder = start("127.0.0.1:0", &limits);
    let to = responder.addresses()[0];
    let (flooding, calm) = (client("127.0.0.1:0"), client("127.0.0.2:0"));
    let begun = Instant::now();
    for _ in 0..100 {
        flooding.send_to(&request(b"twelve bytes"), to).unwrap();
    }
    let counters = responder.counters();
    eventually("all requests are counted", || {
        let totals = counters.totals();
        totals.answers + totals.over_rate == 100
    });
    let most = 3 * (2 + begun.elapsed().as_secs());
    assert!(counters.totals().answers <= most, "{:?}, at most {most}", counters.totals());
    assert_eq!(answer_to(&calm, to, b"another one.").len(), 32);
}

#[test]
fn other_datagrams_are_counted_and_not_answered() {
    let responder = start("127.0.0.1:0", &StunLimits::default());
    let to = responder.addresses()[0];
    let socket = client("127.0.0.1:0");
    let own_answer = answer_to(&socket, to, b"twelve bytes");
    let nonsense: [&[u8]; 4] = [b"", b"GET / HTTP/1.1\r\n\r\n", &own_answer, &[0; 1_400]];
    for datagram in nonsense {
        socket.send_to(datagram, to).unwrap();
    }
    eventually("all datagrams are counted", || responder.counters().totals().unreadable == 4);
    // The next datagram is the answer to the next request, so the others had no answer.
    assert_eq!(answer_to(&socket, to, b"another one.").len(), 32);
}

#[test]
fn several_responders_share_an_address_only_when_configured_to() {
    let limits = StunLimits::default();
    let first = start("127.0.0.1:0", &limits);
    let address = first.addresses()[0];
    let error = Responder::start(&[address], false, &limits).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    drop(first);

    let shared = |address| Responder::start(&[address], true, &limits).expect("it is shared");
    let one = shared(address);
    let other = shared(one.addresses()[0]);
    for _ in 0..20 {
        answer_to(&client("127.0.0.1:0"), address, b"twelve bytes");
    }
    drop(one);
    for _ in 0..20 {
        answer_to(&client("127.0.0.1:0"), address, b"twelve bytes");
    }
    assert!(other.counters().totals().answers >= 20);
}

#[test]
fn one_of_several_processes_answers_all_requests_of_an_address() {
    let limits =
        StunLimits { answers_per_second_per_address: 3, processes: 4, ..StunLimits::default() };
    for (here, clients, server) in [
        ("127.0.0.1:0", "127.0.0", "127.0.0.1"),
        ("[::]:0", "127.0.0", "127.0.0.1"),
        ("[::1]:0", "", "[::1]"),
    ] {
        let start = |address| Responder::start(&[address], true, &limits).expect("it is shared");
        let first = start(here.parse().unwrap());
        let address = first.addresses()[0];
        let responders = [first, start(address), start(address), start(address)];
        let to: SocketAddr = format!("{server}:{}", address.port()).parse().unwrap();
        let hosts: Vec<String> = match clients {
            "" => vec!["[::1]:0".into()],
            network => (2..34).map(|host| format!("{network}.{host}:0")).collect(),
        };
        let totals = || responders.each_ref().map(|responder| responder.counters().totals());
        let seen = |totals: [watchfire_pages::stun::StunTotals; 4]| {
            totals.map(|totals| totals.answers + totals.over_rate)
        };
        let mut busy = [false; 4];
        for host in &hosts {
            let before = seen(totals());
            // Every client has another port, which the kernel's own hash would spread.
            let clients: Vec<UdpSocket> = (0..20).map(|_| client(host)).collect();
            for client in &clients {
                client.send_to(&request(b"twelve bytes"), to).unwrap();
            }
            let sum = |counts: [u64; 4]| counts.iter().sum::<u64>();
            eventually("all requests are counted", || sum(seen(totals())) == sum(before) + 20);
            let changed: Vec<usize> =
                (0..4).filter(|index| seen(totals())[*index] != before[*index]).collect();
            assert_eq!(changed.len(), 1, "{host} at {here}: {changed:?}");
            busy[changed[0]] = true;
        }
        assert!(hosts.len() == 1 || busy == [true; 4], "{busy:?} at {here}");
    }
}
