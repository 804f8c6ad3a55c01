//! Many streams in one connection: yamux.

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

/// Streams with one peer: more than we and they together ever have open.
const STREAMS_MAX: usize = 512;

/// Streams that the other side opened and nobody took yet; further ones are reset. As many as it
/// may open unanswered.
const UNTAKEN_MAX: usize = 256;

/// Bytes that one peer may have under way to us beyond what each stream has at first.
const WINDOWS_BYTES_MAX: usize = 32 << 20;

/// Bytes of a frame: four records of TLS with its header, written at once. Each frame is flushed,
/// so shorter ones cost a system call here, and the reader another and a wake-up.
pub(super) const FRAME_BYTES_MAX: usize = 64 * 1024 - HEADER_BYTES;

/// Bytes in front of each frame.
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
        Muxer { connection, untaken: VecDeque::new(), taker: None }
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
    /// Whatever is to happen on the connection happens while it is asked for new streams, so some
    /// come when nobody can take them.
    untaken: VecDeque<Stream>,
    /// Who would take one.
    taker: Option<Waker>,
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
        if let Some(stream) = self.untaken.pop_front() {
            return Poll::Ready(Ok(stream));
        }
        let stream = self.poll_connection(cx);
        if stream.is_pending() {
            self.taker = Some(cx.waker().clone());
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
        if self.untaken.len() < UNTAKEN_MAX {
            self.untaken.push_back(stream);
            self.taker.take().into_iter().for_each(Waker::wake);
        } else {
            tracing::debug!(%stream, "reset a stream that nobody took");
        }
        // There may be more, and others are to have their turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
