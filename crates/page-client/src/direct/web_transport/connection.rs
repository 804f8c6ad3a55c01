//! One connection of a browser: its handshake, and the stream that carries the frames.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{sleep, timeout};
use wtransport::endpoint::IncomingSession;
use wtransport::{Connection, RecvStream, SendStream, VarInt};

use super::frame_reader::{FrameReader, write_frame};
use super::links::{LinkEvent, QueuedFrames, frame_queue};
use super::listener::{Offered, Offers};
use super::{FRAMES_MAX, SECRET_BYTES, SENDING_BYTES_MIN, SENDING_INTERVAL, Secret, StreamEvent};

/// How long a browser may take from its first datagram to an open stream.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that are read from a stream at once.
const READ_BYTES: usize = 64 << 10;

/// Accepts a connection, and carries the frames of its stream until it closes.
pub(super) async fn accept(
    incoming: IncomingSession,
    offers: Arc<Offers>,
    permit: OwnedSemaphorePermit,
) {
    let Ok(opened) = timeout(HANDSHAKE_TIMEOUT, open(incoming, &offers)).await else { return };
    drop(permit);
    let Some(Opened { secret, events, connection, sending, receiving }) = opened else { return };
    let (queue, QueuedFrames { frames, closed }) = frame_queue();
    let opened = LinkEvent { secret, event: StreamEvent::Opened, queue: Some(queue) };
    if events.send(opened).await.is_ok() {
        let events = EventSender { secret, events };
        tokio::select! {
            () = read(receiving, &events) => {}
            () = write(sending, frames, &events) => {}
            () = watch(&connection, &events) => {}
            // A browser that reads nothing keeps `write` waiting.
            _ = closed => {}
        }
        connection.close(VarInt::from_u32(0), b"over");
        events.send(StreamEvent::Closed).await;
    }
}

struct Opened {
    secret: Secret,
    events: mpsc::Sender<LinkEvent>,
    connection: Connection,
    sending: SendStream,
    receiving: RecvStream,
}

/// Accepts the session at the path of an offer, and opens its stream. Answers other paths with 404.
/// For an offer that was used, this function never returns.
async fn open(incoming: IncomingSession, offers: &Offers) -> Option<Opened> {
    let request = incoming.await.ok()?;
    let secret = secret_of(request.path());
    let offered = secret.map_or(Offered::Unknown, |secret| offers.take(secret));
    let (Some(secret), Offered::Unused(events)) = (secret, &offered) else {
        if matches!(offered, Offered::Used) {
            // The browser dialled several addresses at once, and closes this session itself. An
            // answer would be an error in its log.
            return std::future::pending().await;
        }
        tracing::debug!(from = %request.remote_address(), "refused a browser without an offer");
        request.not_found().await;
        return None;
    };
    let events = events.clone();
    let connection = request.accept().await.ok()?;
    let (sending, receiving) = connection.open_bi().await.ok()?.await.ok()?;
    Some(Opened { secret, events, connection, sending, receiving })
}

/// The secret in the path `/<hexadecimal>`.
fn secret_of(path: &str) -> Option<Secret> {
    let digits = path.strip_prefix('/')?.as_bytes();
    if digits.len() != 2 * SECRET_BYTES {
        return None;
    }
    let mut secret = [0; SECRET_BYTES];
    for (byte, digits) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(digits[at]).to_digit(16);
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(Secret(secret))
}

struct EventSender {
    secret: Secret,
    events: mpsc::Sender<LinkEvent>,
}

impl EventSender {
    /// Returns whether the page is still there.
    async fn send(&self, event: StreamEvent) -> bool {
        self.events.send(LinkEvent { secret: self.secret, event, queue: None }).await.is_ok()
    }
}

/// Reads frames until the stream ends or sends an invalid one.
async fn read(mut stream: RecvStream, events: &EventSender) {
    let mut reader = FrameReader::default();
    let mut buffer = vec![0; READ_BYTES];
    while let Ok(Some(length)) = stream.read(&mut buffer).await {
        reader.push(&buffer[..length]);
        loop {
            match reader.next() {
                Ok(Some(frame)) => {
                    if !events.send(StreamEvent::Frame(frame)).await {
                        return;
                    }
                }
                Ok(None) => break,
                Err(_) => {
                    events.send(StreamEvent::Malformed).await;
                    return;
                }
            }
        }
    }
}

/// Writes frames until the page closes their queue, or the stream accepts none.
async fn write(mut stream: SendStream, mut frames: mpsc::Receiver<Vec<u8>>, events: &EventSender) {
    let (mut batch, mut bytes) = (Vec::new(), Vec::new());
    loop {
        batch.clear();
        bytes.clear();
        let count = frames.recv_many(&mut batch, FRAMES_MAX / 4).await;
        if count == 0 {
            return;
        }
        batch.iter().for_each(|frame| write_frame(frame, &mut bytes));
        let is_written = stream.write_all(&bytes).await.is_ok();
        if !is_written || !events.send(StreamEvent::Written(count)).await {
            return;
        }
    }
}

/// Reports at intervals that the network takes bytes, until the page is gone.
async fn watch(connection: &Connection, events: &EventSender) {
    let sent = || connection.quic_connection().stats().udp_tx.bytes;
    let mut sent_before = sent();
    loop {
        sleep(SENDING_INTERVAL).await;
        let sent_now = sent();
        let is_sending = sent_now - sent_before >= SENDING_BYTES_MIN;
        if is_sending && !events.send(StreamEvent::Sending).await {
            return;
        }
        sent_before = sent_now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_the_secret() {
        let secret = Secret(std::array::from_fn(|at| at as u8 * 16 + 10));
        assert_eq!(secret_of(&format!("/{secret}")), Some(secret));
        for path in
            ["", "/", "/0a", &format!("{secret}"), &format!("/{secret}0"), &format!("//{secret}")]
        {
            assert_eq!(secret_of(path), None, "{path}");
        }
        assert_eq!(secret_of(&format!("/{}", "x".repeat(32))), None);
        assert_eq!(secret_of(&format!("/{}", "é".repeat(16))), None);
    }
}
