//! Draining and dropping a socket server.

use std::time::{Duration, Instant};

use watchfire_sockets::{CloseCause, SocketLimits};
use watchfire_testkit::DEADLINE;
use watchfire_types::ShardId;

use super::support::{Client, Command, Event, TestServer, masked, receive};

fn drain(server: &TestServer, period: Duration) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let began = Instant::now();
    runtime.block_on(async {
        tokio::time::timeout(DEADLINE, server.server.drain(period)).await.unwrap();
    });
    began.elapsed()
}

#[test]
fn a_drain_closes_websockets_with_1012_spread_over_its_period() {
    let server = TestServer::build(2, SocketLimits::default(), None);
    let clients: Vec<Client> = (0..40).map(|_| server.websocket("/listen").0).collect();
    let period = Duration::from_millis(800);
    let began = Instant::now();
    let threads: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            std::thread::spawn(move || {
                let code = client.read_frame().close_code();
                let at = began.elapsed();
                client.send(masked(0x88, b"\x03\xf4"));
                client.expect_end();
                (code, at)
            })
        })
        .collect();
    let took = drain(&server, period);
    assert!(took >= Duration::from_millis(600), "{took:?}");
    let mut closed: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(closed.iter().all(|(code, _)| *code == Some(1012)));
    closed.sort_by_key(|(_, at)| *at);
    // The closes are spread over the period, within a few ticks.
    let (first, middle, last) = (closed[0].1, closed[20].1, closed[39].1);
    assert!(first < middle && middle < last, "{first:?} {middle:?} {last:?}");
    assert!(last - first > Duration::from_millis(300), "{first:?} {last:?}");
    assert_eq!(server.totals().closes_drained, 40);
    let causes = server
        .events
        .try_iter()
        .filter(|event| matches!(event, Event::Closed(_, CloseCause::Drained)));
    assert_eq!(causes.count(), 40);
}

#[test]
fn a_drain_answers_parked_requests_and_ends_idle_connections() {
    let server = TestServer::open();
    let mut parked = server.sending("GET /wait HTTP/1.1\r\nhost: test\r\n\r\n");
    assert!(matches!(receive(&server.events), Event::Parked(..)));
    let mut idle = server.connect();
    assert_eq!(idle.get("/").0, 200);
    let waiting = std::thread::spawn(move || {
        let response = parked.read_response();
        parked.expect_end();
        response
    });
    let ending = std::thread::spawn(move || idle.expect_end());
    drain(&server, Duration::ZERO);
    assert_eq!(receive(&server.events), Event::Drained(ShardId(0)));
    assert_eq!(waiting.join().unwrap(), (200, "the server restarts".into()));
    ending.join().unwrap();
}

#[test]
fn no_connection_is_accepted_once_the_drain_has_begun() {
    let server = TestServer::open();
    let (mut open, _) = server.websocket("/listen");
    let address = server.server.local_addr();
    let draining = std::thread::spawn(move || drain(&server, Duration::from_millis(100)));
    assert_eq!(open.read_frame().close_code(), Some(1012));
    assert!(std::net::TcpStream::connect(address).is_err());
    open.send(masked(0x88, b"\x03\xf4"));
    open.expect_end();
    drop(open);
    draining.join().unwrap();
}

#[test]
fn a_drain_answers_the_first_request_of_a_connection_that_it_accepted() {
    let server = TestServer::open();
    let (mut sentinel, _) = server.websocket("/listen");
    let (mut early, mut upgrading) = (server.connect(), server.connect());
    server.eventually("all are accepted", |totals| totals.accepts == 3);
    let draining = std::thread::spawn(move || drain(&server, Duration::ZERO));
    assert_eq!(sentinel.read_frame().close_code(), Some(1012));
    assert_eq!(early.get("/").0, 200);
    early.expect_end();
    upgrading.upgrade("/listen");
    assert_eq!(upgrading.read_frame().close_code(), Some(1012));
    drop((sentinel, upgrading));
    draining.join().unwrap();
}

#[test]
fn a_drain_serves_the_connections_that_wait_in_the_listener() {
    let server = TestServer::open();
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let (entered, is_blocked) = std::sync::mpsc::channel();
    let block: Command = Box::new(move |_, _| {
        entered.send(()).unwrap();
        blocked.recv().unwrap();
    });
    assert!(server.server.shard_senders()[0].send(block).is_ok());
    is_blocked.recv().unwrap();
    // More than an event loop accepts in one turn.
    let mut waiting: Vec<_> = (0..200).map(|_| server.connect()).collect();
    for client in &mut waiting {
        client.send("GET / HTTP/1.1\r\nhost: test\r\n\r\n");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut draining = Box::pin(server.server.drain(Duration::ZERO));
        // The first poll announces the drain.
        tokio::select! {
            biased;
            () = &mut draining => panic!("the shard is blocked"),
            () = std::future::ready(()) => release.send(()).unwrap(),
        }
        tokio::time::timeout(DEADLINE, draining).await.unwrap();
    });
    for client in &mut waiting {
        assert_eq!(client.read_response().0, 200);
    }
}

#[test]
fn a_drain_does_not_wait_for_ever_for_clients_that_do_not_answer() {
    let server = TestServer::limited(|limits| limits.close_timeout = Duration::from_millis(300));
    let (mut unresponsive, _) = server.websocket("/listen");
    drain(&server, Duration::from_millis(100));
    assert_eq!(unresponsive.read_close(), Some(1012));
}

#[test]
fn dropping_the_socket_server_ends_every_connection() {
    let server = TestServer::build(2, SocketLimits::default(), None);
    let (mut open, _) = server.websocket("/listen");
    let shard_sender = server.server.shard_senders()[0].clone();
    drop(server.server);
    open.expect_end();
    // An unhandled message is dropped with the shard.
    let (sender, dropped) = std::sync::mpsc::channel::<()>();
    let _ = shard_sender.send(Box::new(move |_, _| drop(sender)));
    assert_eq!(
        dropped.recv_timeout(DEADLINE),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
    );
    let end = loop {
        if let Err(error) = server.events.recv_timeout(DEADLINE) {
            break error;
        }
    };
    assert_eq!(end, std::sync::mpsc::RecvTimeoutError::Disconnected);
}
