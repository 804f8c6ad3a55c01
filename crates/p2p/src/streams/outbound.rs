use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{AsyncRead, AsyncWrite};

/// Bytes that are told when they are written, though more waits to be.
const TOLD_BYTES: usize = 64 * 1024;

/// How long nothing is told of a message while it is being written. Where that takes seconds, nobody would know
/// that anything leaves at all.
const TOLD_WITHIN: Duration = Duration::from_millis(250);

/// The stream for what we say: messages are written one after the other, each whole.
#[derive(Debug)]
pub(super) struct Outbound<S> {
    stream: S,
    /// Messages with their lengths before them, or pieces of such. Whoever fills it minds its bound.
    queue: VecDeque<Bytes>,
    /// Bytes of the first of them that are written.
    written: usize,
    /// Bytes that were written and not told.
    untold: usize,
    told_at: Option<Instant>,
    is_flushed: bool,
    /// Whether the other side may still say something here, if only that it resets the stream.
    is_read: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Outbound<S> {
    pub(super) fn new(stream: S) -> Self {
        let (queue, written) = (VecDeque::new(), 0);
        // The negotiation may wait in a buffer.
        Outbound {
            stream,
            queue,
            written,
            untold: 0,
            told_at: None,
            is_flushed: false,
            is_read: true,
        }
    }

    pub(super) fn push(&mut self, message: Bytes) {
        self.queue.push_back(message);
    }

    /// Bytes that were written, or why no more can be. Those of many small messages at once.
    pub(super) fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.notice_reset(cx)?;
        while let Some(message) = self.queue.front() {
            let rest = &message[self.written..];
            let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write(cx, rest)? else {
                let is_late = self.told_at.is_none_or(|at| at.elapsed() >= TOLD_WITHIN);
                if self.untold < TOLD_BYTES || !is_late {
                    return Poll::Pending;
                }
                break;
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.is_flushed = false;
            self.written += written;
            self.untold += written;
            if self.written == message.len() {
                self.queue.pop_front();
                self.written = 0;
                if self.untold >= TOLD_BYTES {
                    break;
                }
            }
        }
        if self.untold > 0 {
            self.told_at = Some(Instant::now());
            return Poll::Ready(Ok(std::mem::take(&mut self.untold)));
        }
        if !self.is_flushed && Pin::new(&mut self.stream).poll_flush(cx)?.is_ready() {
            self.is_flushed = true;
        }
        Poll::Pending
    }

    /// Nothing is said to us on this stream, but its reset can only be read. Most close their half
    /// of it at once.
    fn notice_reset(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.is_read {
            let mut nothing = [0; 1];
            if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, &mut nothing) {
                // Whatever it says ends the reading: what is not read cannot grow.
                self.is_read = false;
                read?;
            }
        }
        Ok(())
    }
}
