//! Receives the messages of one stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::{AsyncRead, Stream};
use tokio::time::{Sleep, sleep_until};
use watchfire_bitswap::Protocol;
use watchfire_store::PooledBuffer;

use super::receive_budget::{Grant, ReceiveBudget, Reservation};

/// Bytes to read in one call between two messages. One read returns many small messages.
const READ_AHEAD_BYTES: usize = 4096;

/// A message that was not decoded yet, and the part of the receive budget that it takes.
#[derive(Debug)]
pub(super) struct RawMessage {
    pub(super) bytes: Bytes,
    pub(super) reservation: Reservation,
    pub(super) protocol: Protocol,
}

/// Reads the messages of a stream of the other side until the stream ends.
#[derive(Debug)]
pub(super) struct MessageReader<S> {
    stream: S,
    protocol: Protocol,
    message_bytes_max: usize,
    budget: ReceiveBudget,
    /// The unprocessed bytes are `ahead[read..filled]`.
    ahead: Box<[u8; READ_AHEAD_BYTES]>,
    read: usize,
    filled: usize,
    state: State,
    /// When to try to reserve room again.
    retry: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
enum State {
    /// The reader expects a length, and has read these bits of it.
    Length {
        value: u64,
        bits: u32,
    },
    /// A message of `len` bytes waits for room in the budget.
    Waiting {
        len: usize,
    },
    /// A message is being received.
    Body {
        body: PooledBuffer,
        filled: usize,
        reservation: Reservation,
    },
    Ended,
}

const START: State = State::Length { value: 0, bits: 0 };

/// Why a stream of the other side cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("a message of {len} bytes exceeds the limit of {max} bytes")]
    TooLong { len: u64, max: usize },
    #[error("the length of a message has more than 32 bits")]
    Length,
    /// A message lost its reservation.
    #[error("a message arrived too slowly while other messages waited for room")]
    TooSlow,
    /// The stream ended within a message, or the connection failed.
    #[error("the stream failed: {0}")]
    Broken(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(cause: io::Error) -> Self {
        ReadError::Broken(cause)
    }
}

impl<S: AsyncRead + Unpin> MessageReader<S> {
    pub(super) fn new(stream: S, message_bytes_max: usize, budget: ReceiveBudget) -> Self {
        let ahead = Box::new([0; READ_AHEAD_BYTES]);
        let (read, filled, state) = (0, 0, START);
        let (protocol, retry) = (Protocol::V1_2, None);
        MessageReader {
            stream,
            protocol,
            message_bytes_max,
            budget,
            ahead,
            read,
            filled,
            state,
            retry,
        }
    }

    /// Sets the negotiated protocol. All versions of Bitswap are decoded in the same way, because
    /// the fields of a message imply its version.
    pub(super) fn with_protocol(self, protocol: Protocol) -> Self {
        MessageReader { protocol, ..self }
    }

    fn poll_reservation(&mut self, len: usize, cx: &mut Context<'_>) -> Poll<Reservation> {
        loop {
            match self.budget.reserve(len, cx) {
                Grant::Reserved(reservation) => {
                    self.retry = None;
                    return Poll::Ready(reservation);
                }
                Grant::Wait => return Poll::Pending,
                Grant::WaitUntil(at) => {
                    ready!(self.retry.insert(Box::pin(sleep_until(at.into()))).as_mut().poll(cx));
                }
            }
        }
    }

    /// Reads ahead if all bytes are processed. Returns whether there are unprocessed bytes.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.read == self.filled {
            let filled = Pin::new(&mut self.stream).poll_read(cx, &mut self.ahead[..]);
            (self.read, self.filled) = (0, ready!(filled)?);
        }
        Poll::Ready(Ok(self.read < self.filled))
    }

    fn poll_message(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<RawMessage>, ReadError>> {
        loop {
            match &mut self.state {
                &mut State::Length { value, bits } => {
                    if !ready!(self.poll_ahead(cx))? {
                        return Poll::Ready(match bits {
                            0 => Ok(None),
                            _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                        });
                    }
                    let byte = self.ahead[self.read];
                    self.read += 1;
                    let value = value | u64::from(byte & 0x7f) << bits;
                    self.state = match byte {
                        0x80.. if bits >= 28 => return Poll::Ready(Err(ReadError::Length)),
                        0x80.. => State::Length { value, bits: bits + 7 },
                        _ => State::Waiting { len: self.checked(value)? },
                    };
                }
                &mut State::Waiting { len } => {
                    let reservation = ready!(self.poll_reservation(len, cx));
                    let mut body = PooledBuffer::with_len(len);
                    let filled = len.min(self.filled - self.read);
                    body[..filled].copy_from_slice(&self.ahead[self.read..self.read + filled]);
                    self.read += filled;
                    self.state = State::Body { body, filled, reservation };
                }
                State::Body { body, filled, reservation } => {
                    if *filled < body.len() {
                        let to = &mut body[*filled..];
                        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, to)?
                        else {
                            return if reservation.poll_revoked(cx) {
                                Poll::Ready(Err(ReadError::TooSlow))
                            } else {
                                Poll::Pending
                            };
                        };
                        if read == 0 {
                            let error = io::Error::from(io::ErrorKind::UnexpectedEof);
                            return Poll::Ready(Err(error.into()));
                        }
                        *filled += read;
                        self.budget.note_progress();
                        continue;
                    }
                    let State::Body { body, reservation, .. } =
                        std::mem::replace(&mut self.state, START)
                    else {
                        unreachable!("the state was just matched");
                    };
                    reservation.complete();
                    let bytes = body.freeze();
                    let protocol = self.protocol;
                    return Poll::Ready(Ok(Some(RawMessage { bytes, reservation, protocol })));
                }
                State::Ended => return Poll::Ready(Ok(None)),
            }
        }
    }

    fn checked(&self, len: u64) -> Result<usize, ReadError> {
        let max = self.message_bytes_max;
        match usize::try_from(len) {
            Ok(len) if len <= max => Ok(len),
            _ => Err(ReadError::TooLong { len, max }),
        }
    }
}

impl<S: AsyncRead + Unpin> Stream for MessageReader<S> {
    type Item = Result<RawMessage, ReadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let message = ready!(self.poll_message(cx));
        Poll::Ready(match message {
            Ok(Some(message)) => Some(Ok(message)),
            Ok(None) => {
                self.state = State::Ended;
                None
            }
            Err(error) => {
                self.state = State::Ended;
                Some(Err(error))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use futures::executor::block_on;
    use futures::io::Cursor;

    use super::super::receive_budget::HostReceiveBudget;
    use super::*;

    const MAX: usize = 1000;

    fn read_all(bytes: &[u8]) -> (Vec<Bytes>, Option<ReadError>) {
        let budget = ReceiveBudget::new(MAX, HostReceiveBudget::new(MAX));
        let mut reader = MessageReader::new(bytes, MAX, budget);
        let mut found = Vec::new();
        while let Some(next) = block_on(reader.next()) {
            match next {
                Ok(message) => found.push(message.bytes),
                Err(error) => return (found, Some(error)),
            }
        }
        (found, None)
    }

    fn framed(len: usize, fill: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        watchfire_content::varint::encode(len as u64, &mut bytes);
        bytes.resize(bytes.len() + len, fill);
        bytes
    }

    #[test]
    fn every_message_of_a_stream_is_read_up_to_its_end() {
        let bytes = [framed(3, 1), framed(0, 0), framed(1000, 2), framed(1, 3)].concat();
        let (found, error) = read_all(&bytes);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(found.iter().map(Bytes::len).collect::<Vec<_>>(), [3, 0, 1000, 1]);
        assert_eq!(&found[0][..], [1, 1, 1]);
    }

    #[test]
    fn a_message_over_the_limit_ends_the_stream_after_the_messages_before_it() {
        let (found, error) = read_all(&[framed(1, 1), framed(1001, 2)].concat());
        assert_eq!(found.len(), 1);
        assert!(matches!(error, Some(ReadError::TooLong { len: 1001, max: MAX })), "{error:?}");
    }

    #[test]
    fn a_length_of_more_than_32_bits_is_rejected() {
        let (found, error) = read_all(&[0xff; 20]);
        assert!(found.is_empty() && matches!(error, Some(ReadError::Length)), "{error:?}");
    }

    #[test]
    fn a_stream_that_ends_within_a_message_or_its_length_is_an_error() {
        for cut in [&framed(10, 1)[..5], &[0x80][..]] {
            let (found, error) = read_all(cut);
            assert!(found.is_empty() && matches!(error, Some(ReadError::Broken(_))));
        }
    }

    #[test]
    fn a_message_waits_until_another_message_frees_its_room() {
        let budget = ReceiveBudget::new(MAX, HostReceiveBudget::new(MAX));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let Grant::Reserved(reservation) = budget.reserve(600, &mut cx) else { panic!("no room") };
        let bytes = framed(500, 1);
        let mut reader = MessageReader::new(&bytes[..], MAX, budget);
        assert!(reader.poll_next_unpin(&mut cx).is_pending());
        drop(reservation);
        assert!(reader.poll_next_unpin(&mut cx).is_ready());
    }

    /// A stream that stops after these bytes without ending.
    struct Stalled(Cursor<Vec<u8>>);

    impl AsyncRead for Stalled {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            to: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            match Pin::new(&mut self.0).poll_read(cx, to) {
                Poll::Ready(Ok(0)) => Poll::Pending,
                read => read,
            }
        }
    }

    #[tokio::test]
    async fn a_message_that_never_ends_loses_its_room_to_another_connection() {
        let host = HostReceiveBudget::new(MAX);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let partial = Stalled(Cursor::new(framed(600, 1)[..100].to_vec()));
        let mut slow = MessageReader::new(partial, MAX, ReceiveBudget::new(MAX, host.clone()));
        assert!(slow.poll_next_unpin(&mut cx).is_pending());

        let bytes = framed(500, 1);
        let mut other = MessageReader::new(&bytes[..], MAX, ReceiveBudget::new(MAX, host.clone()));
        assert!(other.poll_next_unpin(&mut cx).is_pending(), "the host has no room");
        host.expire_all();
        other.retry = None;
        assert!(
            other.poll_next_unpin(&mut cx).is_pending(),
            "the slow reader still holds the room"
        );
        let revoked = slow.poll_next_unpin(&mut cx);
        assert!(matches!(revoked, Poll::Ready(Some(Err(ReadError::TooSlow)))));
        assert!(matches!(other.poll_next_unpin(&mut cx), Poll::Ready(Some(Ok(_)))));
    }
}
