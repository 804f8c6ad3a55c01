//! The streams of a terminal, and QUIC clients that behave badly, on loopback. The test passes the time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use tokio::time::timeout;
use wtransport::Connection;

use super::*;
use crate::direct::path::FRAME_BYTES_MAX;
use crate::direct::sockets::DirectLimit;
use crate::direct::web_transport::test_client::{WAIT, dial};
use crate::direct::web_transport::{StreamLinks, WebTransportListener};
use crate::segment::UnsentMessage;

const PEER: PeerId = PeerId(7);
/// Unread messages and the queue of frames.
const SENT_BYTES_MAX: usize = 5 << 20;

struct Terminal {
    direct: DirectConnections,
    links: StreamLinks,
    now: Instant,
    given_frames: usize,
    written_frames: usize,
    /// The outputs that are not of the stream.
    events: Vec<Output>,
}

impl Terminal {
    /// A terminal, and a client that has dialled it.
    async fn dialled() -> (Self, Connection) {
        let links = StreamLinks::new(Some(Arc::new(WebTransportListener::new(None))));
        let addresses = Box::new(|| vec![SocketAddr::from(([127, 0, 0, 1], 9))]);
        let direct = DirectConnections::new(StdInstant::now(), DirectLimit::new(4), addresses)
            .with_streams(Box::new(links.offers()));
        let mut terminal = Terminal {
            direct,
            links,
            now: Instant::ZERO,
            given_frames: 0,
            written_frames: 0,
            events: Vec::new(),
        };
        assert!(terminal.direct.call(terminal.now, PEER));
        terminal.carry_out();
        let Some(Output::Signal { bytes, .. }) = terminal.events.pop() else {
            panic!("no invitation")
        };
        let Some(Signal::WebTransport { addresses, certificate, secret, .. }) =
            Signal::decode(&bytes)
        else {
            panic!("another signal")
        };
        let connection = dial(&addresses, &certificate, &secret).await.expect("a session");
        while !terminal.direct.is_up(PEER) {
            terminal.step().await;
        }
        (terminal, connection)
    }

    fn send_messages(&mut self, count: u32) {
        for id in 0..count {
            let bytes = vec![7; 1 << 20].into();
            let message = UnsentMessage { id, bytes, is_reported: false, is_relayed: false };
            self.direct.send(self.now, PEER, message);
        }
        self.carry_out();
    }

    /// Handles the next event of a stream.
    async fn step(&mut self) {
        let next = timeout(WAIT, self.links.receive()).await;
        let (secret, event) = next.expect("an event of the stream");
        if let StreamEvent::Written(frames) = event {
            self.written_frames += frames;
        }
        self.direct.handle_stream_event(self.now, secret, event);
        self.carry_out();
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.direct.handle_tick(self.now);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.direct.poll_output() {
            match output {
                Output::StreamFrame { secret, frame } => {
                    self.given_frames += 1;
                    self.links.write(secret, frame);
                }
                Output::CloseStream { secret } => self.links.close(secret),
                output => self.events.push(output),
            }
        }
    }

    /// The messages that are sent again over the relay.
    fn returned(&self) -> Option<usize> {
        self.events.iter().find_map(|output| match output {
            Output::Down { unread, .. } => Some(unread.len()),
            _ => None,
        })
    }
}

async fn assert_closed(connection: &Connection) {
    timeout(WAIT, connection.closed()).await.expect("the connection is closed");
}

#[tokio::test]
async fn a_client_that_acknowledges_nothing_gets_few_messages_and_is_closed() {
    let (mut terminal, connection) = Terminal::dialled().await;
    let (_sending, mut receiving) = connection.accept_bi().await.expect("a stream");
    let reading = tokio::spawn(async move {
        let (mut total, mut buffer) = (0, vec![0; 64 << 10]);
        while let Ok(Some(length)) = receiving.read(&mut buffer).await {
            total += length;
        }
        total
    });
    terminal.send_messages(20);
    while terminal.written_frames < terminal.given_frames {
        terminal.step().await;
    }
    assert!(terminal.given_frames * FRAME_BYTES_MAX <= SENT_BYTES_MAX);
    terminal.pass(Duration::from_millis(29_999));
    assert_eq!((terminal.direct.is_up(PEER), terminal.returned()), (true, None));
    terminal.pass(Duration::from_millis(1));
    assert_eq!((terminal.direct.is_up(PEER), terminal.returned()), (false, Some(20)));
    assert_closed(&connection).await;
    let read = timeout(WAIT, reading).await.expect("the end of the stream").unwrap();
    assert!(read <= SENT_BYTES_MAX, "{read} bytes were read");
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_closed() {
    let (mut terminal, connection) = Terminal::dialled().await;
    let _stream = connection.accept_bi().await.expect("a stream");
    terminal.send_messages(20);
    // Its window takes a little more than these.
    while terminal.written_frames < 64 {
        terminal.step().await;
    }
    terminal.pass(Duration::from_secs(30));
    assert_eq!(terminal.returned(), Some(20));
    assert_closed(&connection).await;
}

#[tokio::test]
async fn a_client_that_sends_nothing_is_closed_after_a_minute() {
    let (mut terminal, connection) = Terminal::dialled().await;
    let _stream = connection.accept_bi().await.expect("a stream");
    terminal.pass(Duration::from_millis(59_999));
    assert!(terminal.direct.is_up(PEER));
    terminal.pass(Duration::from_millis(1));
    assert!(!terminal.direct.is_up(PEER));
    assert_closed(&connection).await;
}
