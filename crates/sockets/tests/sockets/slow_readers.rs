//! Clients that do not read.

use std::time::Duration;

use bytes::Bytes;
use watchfire_sockets::{CloseCause, OfferError, SendError, SocketLimits, frame};

use super::support::{TestServer, masked};

fn limits() -> SocketLimits {
    SocketLimits {
        queued_bytes_max: 256 * 1024,
        send_buffer_bytes: 16 * 1024,
        ..SocketLimits::default()
    }
}

#[test]
fn a_slow_reader_is_closed_with_1013_while_the_others_receive_all() {
    let server = TestServer::with(limits());
    let (mut slow, slow_id) = server.websocket("/listen");
    let (mut fast, fast_id) = server.websocket("/listen");
    let payload = vec![b'x'; 10_000];
    let frame = frame::binary_frame(&payload);
    let mut sent = 0;
    loop {
        let frame = frame.clone();
        let (to_slow, to_fast) = server.on_shard(0, move |_, sockets| {
            (sockets.send(slow_id, &frame), sockets.send(fast_id, &frame))
        });
        assert_eq!(to_fast, Ok(()));
        assert!(fast.read_frame().payload == payload);
        sent += 1;
        match to_slow {
            Ok(()) => assert!(sent < 10_000, "the slow client was not closed"),
            Err(error) => {
                assert_eq!(error, SendError::Overflow);
                break;
            }
        }
    }
    assert_eq!(server.closed(), CloseCause::Slow);
    assert_eq!((server.totals().closes_slow, server.totals().websockets_now), (1, 1));
    // The queue was dropped, except the frame that was partly sent. The close follows it.
    let mut received = 0;
    let code = loop {
        let frame = slow.read_frame();
        if frame.first == 0x88 {
            break frame.close_code();
        }
        assert!(frame.payload == payload, "whole frames only");
        received += 1;
    };
    assert_eq!(code, Some(1013));
    assert!(received < sent);
    server.eventually("its queue is dropped", |totals| totals.queued_bytes_now == 0);
}

#[test]
fn a_queue_that_makes_no_progress_is_slow_too() {
    let server =
        TestServer::with(SocketLimits { slow_timeout: Duration::from_millis(300), ..limits() });
    let (slow, slow_id) = server.websocket("/listen");
    let frame = frame::binary_frame(&[b'x'; 10_000]);
    server.on_shard(0, move |_, sockets| {
        // The client's kernel accepts some of it before its buffer is full.
        while sockets.queued_bytes(slow_id) < 200_000 {
            sockets.send(slow_id, &frame).unwrap();
        }
    });
    assert_eq!(server.closed(), CloseCause::Slow);
    drop(slow);
    server.eventually("its queue is dropped", |totals| totals.queued_bytes_now == 0);
}

#[test]
fn a_reader_that_resumes_receives_everything_in_order() {
    let server = TestServer::with(limits());
    let (mut client, id) = server.websocket("/listen");
    let sent = server.on_shard(0, move |_, sockets| {
        let mut sent = 0u32;
        while sockets.queued_bytes(id) < 200_000 {
            let mut payload = vec![0; 5000];
            payload[..4].copy_from_slice(&sent.to_be_bytes());
            sockets.send(id, &frame::binary_frame(&payload)).unwrap();
            sent += 1;
        }
        sent
    });
    for expected in 0..sent {
        assert_eq!(client.read_frame().payload[..4], expected.to_be_bytes());
    }
    server.eventually("the queue is empty", |totals| totals.queued_bytes_now == 0);
    assert_eq!(server.on_shard(0, move |_, sockets| sockets.queued_bytes(id)), 0);
}

#[test]
fn a_reader_gets_a_burst_whole_that_is_many_times_its_queue() {
    let server = TestServer::with(limits());
    let (mut client, id) = server.websocket("/listen");
    let frame = frame::binary_frame(&[b'x'; 100_000]);
    let is_awaited = server.on_shard(0, move |_, sockets| {
        (0..100).for_each(|_| assert!(sockets.send_shared(id, &frame, true).is_ok()));
        sockets.is_awaited(id)
    });
    assert!(is_awaited);
    for _ in 0..100 {
        assert_eq!(client.read_frame().payload.len(), 100_000);
    }
    assert!(!server.on_shard(0, move |_, sockets| sockets.is_awaited(id)));
}

#[test]
fn without_room_in_the_memory_for_all_a_full_queue_closes_its_socket_as_before() {
    let server = TestServer::with(limits());
    let (_client, id) = server.websocket("/listen");
    let frame = frame::binary_frame(&[b'x'; 100_000]);
    let sent = server.on_shard(0, move |_, sockets| {
        (0..100).take_while(|_| sockets.send_shared(id, &frame, false).is_ok()).count()
    });
    assert!(sent < 10, "{sent}");
    assert_eq!(server.closed(), CloseCause::Slow);
}

#[test]
fn a_paused_socket_is_not_read_until_it_is_resumed() {
    let server = TestServer::with(limits());
    let (mut paused, id) = server.websocket("/echo");
    let (mut other, _) = server.websocket("/echo");
    assert!(server.on_shard(0, move |_, sockets| sockets.pause(id)));
    paused.text("late");
    for _ in 0..3 {
        other.text("early");
        assert_eq!(other.read_frame().payload, b"early");
    }
    assert_eq!(server.totals().messages, 3);
    server.on_shard(0, move |_, sockets| sockets.resume(id));
    assert_eq!(paused.read_frame().payload, b"late");
}

#[test]
fn an_offer_to_a_full_queue_is_refused_and_the_socket_stays_open() {
    let server = TestServer::with(limits());
    let (mut client, id) = server.websocket("/listen");
    let frame = frame::binary_frame(&[b'x'; 10_000]);
    let again = frame.clone();
    let accepted = server.on_shard(0, move |_, sockets| {
        let mut accepted = 0;
        loop {
            match sockets.offer(id, &frame, 50_000) {
                Ok(()) => accepted += 1,
                Err(error) => {
                    assert_eq!(error, OfferError::Full);
                    break;
                }
            }
        }
        // A send may still use the rest of the queue.
        assert!(sockets.queued_bytes(id) > 50_000 && sockets.queued_bytes(id) < 70_000);
        assert_eq!(sockets.send(id, &frame), Ok(()));
        assert_eq!(sockets.len(), 1);
        accepted
    });
    for _ in 0..=accepted {
        assert_eq!(client.read_frame().payload.len(), 10_000);
    }
    assert_eq!(server.on_shard(0, move |_, sockets| sockets.offer(id, &again, 50_000)), Ok(()));
    assert_eq!(client.read_frame().payload.len(), 10_000);
}

#[test]
fn an_empty_queue_takes_one_frame_of_any_size() {
    let server = TestServer::with(limits());
    let (mut client, id) = server.websocket("/listen");
    let large = frame::binary_frame(&vec![7; 1_000_000]);
    let sent = server.on_shard(0, move |_, sockets| sockets.send(id, &large));
    assert_eq!(sent, Ok(()));
    assert_eq!(client.read_frame().payload.len(), 1_000_000);
}

#[test]
fn a_client_that_pings_and_never_reads_is_slow() {
    let server = TestServer::with(limits());
    let (client, _) = server.websocket("/listen");
    let mut pings = client.stream.try_clone().unwrap();
    let thread = std::thread::spawn(move || {
        use std::io::Write as _;
        let burst = masked(0x89, &[0; 125]).repeat(1000);
        while pings.write_all(&burst).is_ok() {}
    });
    assert_eq!(server.closed(), CloseCause::Slow);
    client.stream.shutdown(std::net::Shutdown::Both).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_broadcast_is_shared_not_copied() {
    let server = TestServer::with(limits());
    let clients: Vec<_> = (0..20).map(|_| server.websocket("/listen")).collect();
    let frame = frame::binary_frame(&vec![1; 100_000]);
    let held = frame.clone();
    server.on_shard(0, move |handler, sockets| {
        for &id in &handler.sockets {
            // More than the kernel's buffer: the rest is queued.
            sockets.send(id, &frame).unwrap();
            sockets.send(id, &frame).unwrap();
        }
    });
    assert!(server.totals().queued_bytes_now > 1_000_000);
    // All queues share the frame, so it cannot become mutable.
    let shared: Result<_, Bytes> = held.try_into_mut();
    assert!(shared.is_err());
    drop(clients);
}

#[test]
fn work_is_done_in_slices_while_http_is_served() {
    let server = TestServer::open();
    let (client, id) = server.websocket("/listen");
    server.on_shard(0, move |handler, _| {
        handler.backlog = vec![(id, frame::text_frame(b"x")); 200_000];
    });
    let mut reading = client.stream.try_clone().unwrap();
    std::thread::spawn(move || {
        use std::io::Read as _;
        let mut buffer = [0; 65536];
        while reading.read(&mut buffer).is_ok_and(|len| len > 0) {}
    });
    assert_eq!(server.connect().get("/"), (200, "hello".into()));
    let left = server.on_shard(0, |handler, _| handler.backlog.len());
    assert!(left > 0, "the page waited for all of the work");
    server.on_shard(0, |handler, _| handler.backlog.clear());
}
