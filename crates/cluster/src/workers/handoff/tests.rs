use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use super::*;

/// A client, and the server's end of its connection.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("connects");
    let (server, _) = listener.accept().expect("a connection");
    (client, server)
}

/// Whether no process has the other end of this connection open.
fn is_closed(mut client: TcpStream) -> bool {
    // This limits a failure, not the test.
    client.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("a timeout");
    matches!(client.read(&mut [0]), Ok(0))
}

#[tokio::test]
async fn a_connection_arrives_with_its_bytes_and_stays_open() {
    let (here, there) = HandoffSocket::pair().expect("sockets");
    for len in [0, 1, HANDOFF_BYTES_MAX] {
        let (mut client, server) = connection();
        let bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
        here.send(server.as_fd(), &bytes).expect("it is sent");
        drop(server);
        let (fd, received) = there.recv().await.expect("it works").expect("a connection");
        assert_eq!(received, bytes);
        TcpStream::from(fd).write_all(b"served").expect("it is open");
        let mut reply = String::new();
        client.read_to_string(&mut reply).expect("an answer");
        assert_eq!(reply, "served");
    }
    assert_eq!(here.counts(), HandoffCounts { sent: 3, ..HandoffCounts::default() });
    assert_eq!(there.counts(), HandoffCounts { received: 3, ..HandoffCounts::default() });
}

#[tokio::test]
async fn both_ends_send_and_receive() {
    let (here, there) = HandoffSocket::pair().expect("sockets");
    let (_client, server) = connection();
    here.send(server.as_fd(), b"to there").expect("it is sent");
    let (fd, _) = there.recv().await.expect("it works").expect("a connection");
    there.send(fd.as_fd(), b"and back").expect("it is sent");
    let (_, bytes) = here.recv().await.expect("it works").expect("a connection");
    assert_eq!(bytes, b"and back");
}

#[test]
fn too_many_bytes_are_refused() {
    let (here, _there) = HandoffSocket::pair().expect("sockets");
    let (_client, server) = connection();
    let error = here.send(server.as_fd(), &[0; HANDOFF_BYTES_MAX + 1]).expect_err("too many");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[tokio::test]
async fn when_the_queue_is_full_a_send_fails_and_the_connection_stays_open() {
    let (here, there) = HandoffSocket::pair().expect("sockets");
    let (mut client, mut server) = connection();
    let mut sent = 0;
    let error = loop {
        match here.send(server.as_fd(), &[0; 1_000]) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 100_000, "the queue has no bound");
    };
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    server.write_all(b"!").expect("it is still open");
    client.read_exact(&mut [0]).expect("a byte");

    for _ in 0..sent {
        there.recv().await.expect("it works").expect("a connection");
    }
    here.send(server.as_fd(), b"").expect("there is space again");
}

#[tokio::test]
async fn the_end_of_the_other_worker_is_received_after_its_connections() {
    let (here, there) = HandoffSocket::pair().expect("sockets");
    let (_client, server) = connection();
    here.send(server.as_fd(), b"last").expect("it is sent");
    drop(here);
    assert!(there.recv().await.expect("it works").is_some());
    assert!(there.recv().await.expect("it works").is_none());
    let error = there.send(server.as_fd(), b"").expect_err("the other end is closed");
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn unread_messages_at_the_end_of_the_other_worker_are_not_an_error() {
    let (here, there) = HandoffSocket::pair().expect("sockets");
    let (_client, server) = connection();
    there.send(server.as_fd(), b"never read").expect("it is sent");
    drop(here);
    assert!(there.recv().await.expect("it works").is_none());
}

#[tokio::test]
async fn damaged_messages_are_dropped_counted_and_closed() {
    let (ours, theirs) = packet::pair().expect("sockets");
    let there = HandoffSocket::new(theirs);
    let (client, server) = connection();
    let long = vec![MARK; HANDOFF_BYTES_MAX + 2];
    let (one, two) = ([server.as_fd()], [server.as_fd(), server.as_fd()]);
    let damaged: [(&[u8], &[BorrowedFd<'_>]); 5] = [
        (&[MARK, 1, 2, 3], &[]),
        (&[MARK, 1, 2, 3], &two),
        (&[0, 1, 2, 3], &one),
        (&[], &one),
        (&long, &one),
    ];
    for (bytes, descriptors) in damaged {
        packet::send(&ours, &[IoSlice::new(bytes)], descriptors).expect("it is sent");
    }
    packet::send(&ours, &[IoSlice::new(&[MARK, 9])], &one).expect("it is sent");

    let (fd, bytes) = there.recv().await.expect("it works").expect("the valid message");
    assert_eq!(bytes, [9]);
    assert_eq!(there.counts(), HandoffCounts { sent: 0, received: 1, dropped: 5 });
    drop((fd, server));
    assert!(is_closed(client), "a dropped message left its connection open");
}

#[tokio::test]
async fn other_threads_send_while_one_task_receives() {
    let (here, there) = HandoffSocket::pair().expect("sockets");
    let here = std::sync::Arc::new(here);
    let waiter = tokio::spawn({
        let here = here.clone();
        async move { here.recv().await.expect("it works").expect("a connection").1 }
    });
    let (_client, server) = connection();
    let thread = std::thread::spawn({
        let server = server.try_clone().expect("a copy");
        move || here.send(server.as_fd(), b"from a thread")
    });
    let (_, bytes) = there.recv().await.expect("it works").expect("a connection");
    assert_eq!(bytes, b"from a thread");
    thread.join().expect("no panic").expect("it is sent");
    there.send(server.as_fd(), b"to the task").expect("it is sent");
    assert_eq!(waiter.await.expect("no panic"), b"to the task");
}
