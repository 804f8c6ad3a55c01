//! Multiplexing with yamux.

use std::collections::VecDeque;
use std::future::{Ready, ready};
use std::io;
use std::iter::{Once, once};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures::{AsyncRead, AsyncWrite};
use libp2p::core::muxing::{StreamMuxer, StreamMuxerEvent};
use libp2p::core::upgrade::{InboundConnectionUpgrade, OutboundConnectionUpgrade, UpgradeInfo};
use yamux::{Config, Connection, ConnectionError, DEFAULT_CREDIT, Mode, Stream};

/// Largest number of streams of a connection, more than both sides together use.
const STREAMS_MAX: usize = 512;

/// Streams of the other side that wait to be accepted, which is the limit of yamux. Further ones
/// are reset.
const BACKLOG_MAX: usize = 256;

/// Receive window of a connection beyond the initial windows of its streams.
const WINDOWS_BYTES_MAX: usize = 32 << 20;

/// Largest frame: with its header it fills four TLS records. Each frame is flushed, so shorter
/// frames cost more system calls and wake-ups on both sides.
pub(super) const FRAME_BYTES_MAX: usize = 64 * 1024 - HEADER_BYTES;

/// Length of the header of a frame.
pub(super) const HEADER_BYTES: usize = 12;

/// The upgrade of a secured connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Yamux;

impl Yamux {
    fn over<C: AsyncRead + AsyncWrite + Unpin>(self, socket: C, mode: Mode) -> Muxer<C> {
        let mut config = Config::default();
        config.set_max_num_streams(STREAMS_MAX);
        let windows = STREAMS_MAX * DEFAULT_CREDIT as usize + WINDOWS_BYTES_MAX;
        config.set_max_connection_receive_window(Some(windows));
        config.set_split_send_size(FRAME_BYTES_MAX);
        let connection = Connection::new(socket, config, mode);
        Muxer { connection, backlog: VecDeque::new(), waiting: None }
    }
}

impl UpgradeInfo for Yamux {
    type Info = &'static str;
    type InfoIter = Once<Self::Info>;

    fn protocol_info(&self) -> Self::InfoIter {
        once("/yamux/1.0.0")
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> InboundConnectionUpgrade<C> for Yamux {
    type Output = Muxer<C>;
    type Error = io::Error;
    type Future = Ready<io::Result<Self::Output>>;

    fn upgrade_inbound(self, socket: C, _: Self::Info) -> Self::Future {
        ready(Ok(self.over(socket, Mode::Server)))
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> OutboundConnectionUpgrade<C> for Yamux {
    type Output = Muxer<C>;
    type Error = io::Error;
    type Future = Ready<io::Result<Self::Output>>;

    fn upgrade_outbound(self, socket: C, _: Self::Info) -> Self::Future {
        ready(Ok(self.over(socket, Mode::Client)))
    }
}

/// A connection with many streams.
#[derive(Debug)]
pub(super) struct Muxer<C> {
    connection: Connection<C>,
    /// New streams that were not accepted yet. The connection makes progress only while it is
    /// polled for new streams, so streams may arrive at any time.
    backlog: VecDeque<Stream>,
    /// The task that waits for a new stream.
    waiting: Option<Waker>,
}

impl<C: AsyncRead + AsyncWrite + Unpin> Muxer<C> {
    fn poll_connection(&mut self, cx: &mut Context<'_>) -> Poll<Result<Stream, ConnectionError>> {
        let next = self.connection.poll_next_inbound(cx);
        next.map(|stream| stream.unwrap_or(Err(ConnectionError::Closed)))
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> StreamMuxer for Muxer<C> {
    type Substream = Stream;
    type Error = ConnectionError;

    fn poll_inbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Stream, ConnectionError>> {
        if let Some(stream) = self.backlog.pop_front() {
            return Poll::Ready(Ok(stream));
        }
        let stream = self.poll_connection(cx);
        if stream.is_pending() {
            self.waiting = Some(cx.waker().clone());
        }
        stream
    }

    fn poll_outbound(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Stream, ConnectionError>> {
        self.connection.poll_new_outbound(cx)
    }

    fn poll_close(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ConnectionError>> {
        self.connection.poll_close(cx)
    }

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<StreamMuxerEvent, ConnectionError>> {
        let Poll::Ready(stream) = self.poll_connection(cx)? else { return Poll::Pending };
        if self.backlog.len() < BACKLOG_MAX {
            self.backlog.push_back(stream);
            self.waiting.take().into_iter().for_each(Waker::wake);
        } else {
            tracing::debug!(%stream, "reset a stream: the backlog is full");
        }
        // More streams may be ready. Other tasks run first.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
