use std::io;
use std::task::{Context, Poll};

use bitswap::{Message, Protocol};
use futures::{AsyncRead, AsyncWrite};

use super::outbound::Outbound;
use crate::wire;

/// The streams for what we say to a peer: one, or one for blocks beside it, so that what is short does not wait until what
/// is long has left.
#[derive(Debug)]
pub(super) struct Lanes<S> {
    words: Outbound<S>,
    blocks: Option<Outbound<S>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Lanes<S> {
    pub(super) const fn one(stream: Outbound<S>) -> Self {
        Lanes { words: stream, blocks: None }
    }

    pub(super) const fn two(words: Outbound<S>, blocks: Outbound<S>) -> Self {
        Lanes { words, blocks: Some(blocks) }
    }

    /// Whoever fills it minds its bound.
    pub(super) fn push(&mut self, message: Message, protocol: Protocol) {
        let Some(lane) = &mut self.blocks else { return push(&mut self.words, &message, protocol) };
        let (words, blocks) = message.apart();
        for (lane, message) in [(&mut self.words, words), (lane, blocks)] {
            if !message.is_empty() {
                push(lane, &message, protocol);
            }
        }
    }

    /// Bytes of messages that were written, or why no more can be.
    pub(super) fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = self.words.poll_written(cx) {
            return Poll::Ready(written);
        }
        self.blocks.as_mut().map_or(Poll::Pending, |blocks| blocks.poll_written(cx))
    }
}

fn push<S: AsyncRead + AsyncWrite + Unpin>(
    lane: &mut Outbound<S>,
    message: &Message,
    protocol: Protocol,
) {
    wire::encode(message, protocol).into_iter().for_each(|piece| lane.push(piece));
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::{Arc, Mutex};
    use std::task::Waker;

    use bitswap::leaves::{self, Word};
    use bitswap::message::FrameReader;
    use content::Block;

    use super::*;

    /// A stream whose reader has taken all of so many bytes, and nothing more.
    #[derive(Clone, Debug)]
    struct Full(Arc<Mutex<Vec<u8>>>, usize);

    impl AsyncWrite for Full {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let mut taken = self.0.lock().unwrap();
            let bytes = &bytes[..bytes.len().min(self.1 - taken.len())];
            taken.extend_from_slice(bytes);
            if bytes.is_empty() { Poll::Pending } else { Poll::Ready(Ok(bytes.len())) }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncRead for Full {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }
    }

    fn said(list: u32) -> Message {
        Message { leaves: vec![Word::Unfollow { list }], ..Message::default() }
    }

    #[test]
    fn what_is_said_does_not_wait_for_a_block_that_nobody_takes() {
        let stream = || Full(Arc::default(), 4096);
        let (words, blocks) = (stream(), stream());
        let mut lanes = Lanes::two(Outbound::new(words.clone()), Outbound::new(blocks.clone()));
        let block = Block::raw(vec![7; 1 << 20].into()).unwrap();
        let leaf = Word::Leaf { list: 1, leaf: 0, block };
        let unfollow = Word::Unfollow { list: 1 };
        let message = Message { leaves: vec![leaf, unfollow], ..Message::default() };
        lanes.push(message, Protocol::Leaves);
        lanes.push(said(2), Protocol::Leaves);

        let mut cx = Context::from_waker(Waker::noop());
        let mut written = 0;
        while let Poll::Ready(bytes) = lanes.poll_written(&mut cx) {
            written += bytes.unwrap();
        }
        assert_eq!(written, leaves::encoded_len(&said(1)) + leaves::encoded_len(&said(2)));
        let mut reader = FrameReader::default();
        reader.push(&words.0.lock().unwrap());
        for list in [1, 2] {
            let frame = reader.next_frame().unwrap().unwrap();
            assert_eq!(leaves::decode(&frame), Ok(said(list)));
        }
        assert_eq!(blocks.0.lock().unwrap().len(), 4096);
    }

    #[test]
    fn what_left_of_a_long_message_is_told_before_the_rest_has() {
        let mut lanes = Lanes::one(Outbound::new(Full(Arc::default(), 100_000)));
        let block = Block::raw(vec![7; 1 << 20].into()).unwrap();
        let leaf = Word::Leaf { list: 1, leaf: 0, block };
        lanes.push(Message { leaves: vec![leaf], ..Message::default() }, Protocol::Leaves);
        let mut cx = Context::from_waker(Waker::noop());
        let told = lanes.poll_written(&mut cx);
        assert!(matches!(told, Poll::Ready(Ok(100_000))), "{told:?}");
        assert!(lanes.poll_written(&mut cx).is_pending());
    }
}
