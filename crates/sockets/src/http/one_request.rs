//! A connection on which hyper reads one request.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use watchfire_types::ShardId;

use super::request_bytes::RequestBytes;
use super::stream::Stream;
use crate::counters::{ShardCounters, SocketCounters};
use crate::limits::SocketLimits;

#[derive(Default)]
pub(super) struct Answer {
    /// hyper has received all of it from the router.
    is_whole: Cell<bool>,
    /// hyper has written all of it to the kernel.
    is_written: Cell<bool>,
    /// Wakes the read that waits for `is_written`.
    reader: RefCell<Option<Waker>>,
}

/// The response's body. Dropping it sets [`Answer::is_whole`].
pub(super) struct AnswerBody {
    body: Body,
    answer: Rc<Answer>,
}

impl AnswerBody {
    pub(super) fn new(body: Body, answer: Rc<Answer>) -> Self {
        AnswerBody { body, answer }
    }
}

impl Drop for AnswerBody {
    /// hyper drops a body after it has encoded the end of it.
    fn drop(&mut self) {
        self.answer.is_whole.set(true);
    }
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Counts the bytes that hyper reads and writes.
pub(super) struct Traffic {
    counters: Arc<SocketCounters>,
    shard: ShardId,
}

impl Traffic {
    pub(super) fn new(counters: Arc<SocketCounters>, shard: ShardId) -> Self {
        Traffic { counters, shard }
    }

    fn count(&self) -> &ShardCounters {
        self.counters.shard(self.shard)
    }

    fn note_written(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(written)) = polled {
            self.count().bytes_out.add(*written as u64);
        }
    }
}

/// The stream that hyper reads and writes.
///
/// A read returns only the request's bytes. Then it is pending until the response is written, and
/// returns the end of the stream, so that hyper releases the connection.
pub(super) struct OneRequest {
    stream: Stream,
    /// Bytes that were read from the stream ahead of hyper.
    ahead: Vec<u8>,
    /// The number of bytes of `ahead` that hyper has read.
    given: usize,
    request: RequestBytes,
    answer: Rc<Answer>,
    is_done: bool,
    traffic: Traffic,
    reading: Stall,
    writing: Stall,
}

impl OneRequest {
    pub(super) fn new(
        stream: Stream,
        ahead: Vec<u8>,
        request: RequestBytes,
        answer: Rc<Answer>,
        traffic: Traffic,
        limits: &SocketLimits,
    ) -> Self {
        OneRequest {
            stream,
            ahead,
            given: 0,
            request,
            answer,
            is_done: false,
            traffic,
            reading: Stall::new(limits.head_timeout),
            writing: Stall::new(limits.slow_timeout),
        }
    }

    /// Whether the request was completely read and answered, so that another may follow.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether the request was completely read, and the answer written.
    pub(super) fn is_answered(&self) -> bool {
        self.request.is_over() && self.answer.is_written.get()
    }

    /// The stream, and the bytes that were read after the request.
    pub(super) fn into_parts(mut self) -> (Stream, Vec<u8>) {
        self.ahead.drain(..self.given);
        (self.stream, self.ahead)
    }

    fn read_body(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = &buffer.filled()[before..];
        self.traffic.count().bytes_in.add(read.len() as u64);
        let ours = self.request.take(read);
        // The slab handles the bytes of the next request.
        self.ahead = read[ours..].to_vec();
        self.given = 0;
        buffer.set_filled(before + ours);
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for OneRequest {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.request.is_over() {
            if this.answer.is_written.get() {
                this.is_done = true;
                return Poll::Ready(Ok(()));
            }
            *this.answer.reader.borrow_mut() = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let ahead = &this.ahead[this.given..];
        if !ahead.is_empty() {
            let room = ahead.len().min(buffer.remaining());
            let ours = this.request.take(&ahead[..room]);
            buffer.put_slice(&ahead[..ours]);
            this.given += ours;
            if this.given == this.ahead.len() {
                (this.ahead, this.given) = (Vec::new(), 0);
            }
            return Poll::Ready(Ok(()));
        }
        let polled = this.read_body(cx, buffer);
        this.reading.watch(cx, polled)
    }
}

impl AsyncWrite for OneRequest {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.traffic.note_written(&polled);
        this.writing.watch(cx, polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.traffic.note_written(&polled);
        this.writing.watch(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// hyper calls this after it has written its own buffer.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.stream).poll_flush(cx))?;
        if this.answer.is_whole.get()
            && !this.answer.is_written.replace(true)
            && let Some(reader) = this.answer.reader.borrow_mut().take()
        {
            reader.wake();
        }
        Poll::Ready(Ok(()))
    }

    /// hyper has written everything. The slab ends the connection.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A timeout that runs only while reads or writes are pending.
pub(super) struct Stall {
    limit: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Stall {
    pub(super) fn new(limit: Duration) -> Self {
        Stall { limit, sleep: None }
    }

    /// Returns the result of a read or write, or an error if it was pending for `limit`.
    pub(super) fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.sleep = None;
            return polled;
        }
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        match sleep.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}
