use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bitswap::Protocol;
use bytes::Bytes;
use futures::{AsyncRead, Stream};
use store::Buffer;
use tokio::time::{Sleep, sleep_until};

use super::arrivals::{Arrivals, Place, Taken};

/// Bytes that are read at once while no message has begun: many small ones come with one read.
const AHEAD_BYTES: usize = 4096;

/// A message as it came, and the room that it takes until nobody holds it any more.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) bytes: Bytes,
    pub(super) place: Place,
    /// What it is written in.
    pub(super) protocol: Protocol,
}

/// A stream of the other side: messages, each after its length, until its end.
#[derive(Debug)]
pub(super) struct Inbound<S> {
    stream: S,
    protocol: Protocol,
    message_bytes_max: usize,
    arrivals: Arrivals,
    /// What was read and not looked at: `ahead[read..filled]`.
    ahead: Box<[u8; AHEAD_BYTES]>,
    read: usize,
    filled: usize,
    state: State,
    /// When to ask for room once more.
    again: Option<Pin<Box<Sleep>>>,
}

#[derive(Debug)]
enum State {
    /// A length is expected, of which these bits were read.
    Length { value: u64, bits: u32 },
    /// A message of `len` bytes waits for room.
    Room { len: usize },
    /// A message is arriving.
    Body { body: Buffer, filled: usize, place: Place },
    /// Nothing more comes.
    Ended,
}

const START: State = State::Length { value: 0, bits: 0 };

/// Why a stream of the other side is read no further.
#[derive(Debug, thiserror::Error)]
pub(super) enum InboundError {
    /// A message is longer than any may be.
    #[error("a message of {len} bytes, and at most {max} are allowed")]
    TooLong { len: u64, max: usize },
    /// A length is not a number.
    #[error("a message's length has more than 32 bits")]
    Length,
    /// Others found no room in the host because of a message that hardly came.
    #[error("a message came too slowly while others waited for its room")]
    TooSlow,
    /// The stream ended inside a message, or broke.
    #[error("the stream broke: {0}")]
    Broken(#[from] io::Error),
}

impl<S: AsyncRead + Unpin> Inbound<S> {
    pub(super) fn new(stream: S, message_bytes_max: usize, arrivals: Arrivals) -> Self {
        let ahead = Box::new([0; AHEAD_BYTES]);
        let (read, filled, state) = (0, 0, START);
        let (protocol, again) = (Protocol::V1_2, None);
        Inbound { stream, protocol, message_bytes_max, arrivals, ahead, read, filled, state, again }
    }

    /// What is said on the stream, unless it is Bitswap, whose versions are read alike: the fields
    /// say which one it is.
    pub(super) fn speaking(self, protocol: Protocol) -> Self {
        Inbound { protocol, ..self }
    }

    fn poll_room(&mut self, len: usize, cx: &mut Context<'_>) -> Poll<Place> {
        loop {
            match self.arrivals.take(len, cx) {
                Taken::Place(place) => {
                    self.again = None;
                    return Poll::Ready(place);
                }
                Taken::Wait => return Poll::Pending,
                Taken::WaitUntil(at) => {
                    ready!(self.again.insert(Box::pin(sleep_until(at.into()))).as_mut().poll(cx));
                }
            }
        }
    }

    /// Reads ahead if nothing is; whether anything is there now.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.read == self.filled {
            let filled = Pin::new(&mut self.stream).poll_read(cx, &mut self.ahead[..]);
            (self.read, self.filled) = (0, ready!(filled)?);
        }
        Poll::Ready(Ok(self.read < self.filled))
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame>, InboundError>> {
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
                        0x80.. if bits >= 28 => return Poll::Ready(Err(InboundError::Length)),
                        0x80.. => State::Length { value, bits: bits + 7 },
                        _ => State::Room { len: self.checked(value)? },
                    };
                }
                &mut State::Room { len } => {
                    let place = ready!(self.poll_room(len, cx));
                    let mut body = Buffer::of(len);
                    let filled = len.min(self.filled - self.read);
                    body[..filled].copy_from_slice(&self.ahead[self.read..self.read + filled]);
                    self.read += filled;
                    self.state = State::Body { body, filled, place };
                }
                State::Body { body, filled, place } => {
                    if *filled < body.len() {
                        let to = &mut body[*filled..];
                        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, to)?
                        else {
                            let is_given_up = place.is_given_up(cx);
                            return if is_given_up {
                                Poll::Ready(Err(InboundError::TooSlow))
                            } else {
                                Poll::Pending
                            };
                        };
                        if read == 0 {
                            let error = io::Error::from(io::ErrorKind::UnexpectedEof);
                            return Poll::Ready(Err(error.into()));
                        }
                        *filled += read;
                        self.arrivals.note();
                        continue;
                    }
                    let State::Body { body, place, .. } = std::mem::replace(&mut self.state, START)
                    else {
                        unreachable!("it was just looked at");
                    };
                    place.is_filled();
                    let bytes = body.freeze();
                    let protocol = self.protocol;
                    return Poll::Ready(Ok(Some(Frame { bytes, place, protocol })));
                }
                State::Ended => return Poll::Ready(Ok(None)),
            }
        }
    }

    fn checked(&self, len: u64) -> Result<usize, InboundError> {
        let max = self.message_bytes_max;
        match usize::try_from(len) {
            Ok(len) if len <= max => Ok(len),
            _ => Err(InboundError::TooLong { len, max }),
        }
    }
}

impl<S: AsyncRead + Unpin> Stream for Inbound<S> {
    type Item = Result<Frame, InboundError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let frame = ready!(self.poll_frame(cx));
        Poll::Ready(match frame {
            Ok(Some(frame)) => Some(Ok(frame)),
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

    use super::super::arrivals::Hall;
    use super::*;

    const MAX: usize = 1000;

    fn frames(bytes: &[u8]) -> (Vec<Bytes>, Option<InboundError>) {
        let arrivals = Arrivals::new(MAX, Hall::new(MAX));
        let mut inbound = Inbound::new(bytes, MAX, arrivals);
        let mut found = Vec::new();
        while let Some(next) = block_on(inbound.next()) {
            match next {
                Ok(frame) => found.push(frame.bytes),
                Err(error) => return (found, Some(error)),
            }
        }
        (found, None)
    }

    fn framed(len: usize, fill: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        content::varint::encode(len as u64, &mut bytes);
        bytes.resize(bytes.len() + len, fill);
        bytes
    }

    #[test]
    fn a_stream_holds_many_messages_and_none_is_lost_at_its_end() {
        let bytes = [framed(3, 1), framed(0, 0), framed(1000, 2), framed(1, 3)].concat();
        let (found, error) = frames(&bytes);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(found.iter().map(Bytes::len).collect::<Vec<_>>(), [3, 0, 1000, 1]);
        assert_eq!(&found[0][..], [1, 1, 1]);
    }

    #[test]
    fn a_message_over_the_limit_ends_its_stream_after_those_before_it() {
        let (found, error) = frames(&[framed(1, 1), framed(1001, 2)].concat());
        assert_eq!(found.len(), 1);
        assert!(matches!(error, Some(InboundError::TooLong { len: 1001, max: MAX })), "{error:?}");
    }

    #[test]
    fn a_length_without_end_is_refused() {
        let (found, error) = frames(&[0xff; 20]);
        assert!(found.is_empty() && matches!(error, Some(InboundError::Length)), "{error:?}");
    }

    #[test]
    fn an_end_inside_a_message_or_its_length_is_an_error() {
        for cut in [&framed(10, 1)[..5], &[0x80][..]] {
            let (found, error) = frames(cut);
            assert!(found.is_empty() && matches!(error, Some(InboundError::Broken(_))));
        }
    }

    #[test]
    fn a_message_waits_until_another_has_left_room_for_it() {
        let arrivals = Arrivals::new(MAX, Hall::new(MAX));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let Taken::Place(place) = arrivals.take(600, &mut cx) else { panic!("no room") };
        let bytes = framed(500, 1);
        let mut inbound = Inbound::new(&bytes[..], MAX, arrivals);
        assert!(inbound.poll_next_unpin(&mut cx).is_pending());
        drop(place);
        assert!(inbound.poll_next_unpin(&mut cx).is_ready());
    }

    /// A stream on which nothing more comes, and which does not end.
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
    async fn who_never_ends_a_message_gives_way_to_other_connections() {
        let hall = Hall::new(MAX);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let begun = Stalled(Cursor::new(framed(600, 1)[..100].to_vec()));
        let mut slow = Inbound::new(begun, MAX, Arrivals::new(MAX, hall.clone()));
        assert!(slow.poll_next_unpin(&mut cx).is_pending());

        let bytes = framed(500, 1);
        let mut other = Inbound::new(&bytes[..], MAX, Arrivals::new(MAX, hall.clone()));
        assert!(other.poll_next_unpin(&mut cx).is_pending(), "the host has no room");
        hall.are_all_overdue();
        other.again = None;
        assert!(other.poll_next_unpin(&mut cx).is_pending(), "it has not come back yet");
        let given_up = slow.poll_next_unpin(&mut cx);
        assert!(matches!(given_up, Poll::Ready(Some(Err(InboundError::TooSlow)))));
        assert!(matches!(other.poll_next_unpin(&mut cx), Poll::Ready(Some(Ok(_)))));
    }
}
