//! Sends messages on one stream.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{AsyncRead, AsyncWrite};

/// Written bytes that are reported immediately, even if more bytes wait to be written.
const REPORTED_BYTES: usize = 64 * 1024;

/// The longest time between two reports while a long message is being written. On a slow link the
/// host would otherwise see no progress for seconds.
const REPORT_INTERVAL: Duration = Duration::from_millis(250);

/// Writes messages to a stream, one after the other.
#[derive(Debug)]
pub(super) struct MessageWriter<S> {
    stream: S,
    /// Encoded messages, or chunks of them. The caller bounds the queue.
    queue: VecDeque<Bytes>,
    /// Bytes of the first chunk that are written.
    written: usize,
    /// Bytes that were written and not reported.
    unreported: usize,
    reported_at: Option<Instant>,
    is_flushed: bool,
    /// Whether the read half is still open. A reset by the other side is only seen by reading.
    is_readable: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> MessageWriter<S> {
    pub(super) fn new(stream: S) -> Self {
        MessageWriter {
            stream,
            queue: VecDeque::new(),
            written: 0,
            unreported: 0,
            reported_at: None,
            // The protocol negotiation may wait in a buffer.
            is_flushed: false,
            is_readable: true,
        }
    }

    pub(super) fn push(&mut self, chunk: Bytes) {
        self.queue.push_back(chunk);
    }

    /// Writes the queue. Returns the number of bytes that were written since the last report, or
    /// the error that ended the stream. One report covers many small messages.
    pub(super) fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.check_reset(cx)?;
        while let Some(chunk) = self.queue.front() {
            let rest = &chunk[self.written..];
            let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(cx, rest)? else {
                let is_due = self.reported_at.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL);
                if self.unreported < REPORTED_BYTES || !is_due {
                    return Poll::Pending;
                }
                break;
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.is_flushed = false;
            self.written += written;
            self.unreported += written;
            if self.written == chunk.len() {
                self.queue.pop_front();
                self.written = 0;
                if self.unreported >= REPORTED_BYTES {
                    break;
                }
            }
        }
        if self.unreported > 0 {
            self.reported_at = Some(Instant::now());
            return Poll::Ready(Ok(std::mem::take(&mut self.unreported)));
        }
        if !self.is_flushed && Pin::new(&mut self.stream).poll_flush(cx)?.is_ready() {
            self.is_flushed = true;
        }
        Poll::Pending
    }

    /// Fails if the other side has reset the stream. Most peers close their half immediately.
    fn check_reset(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.is_readable {
            let mut byte = [0; 1];
            if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, &mut byte) {
                // Data is ignored, and reading stops, so that no data accumulates.
                self.is_readable = false;
                read?;
            }
        }
        Ok(())
    }
}
