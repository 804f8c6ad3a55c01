//! The streams on which a connection sends.

use std::io;
use std::task::{Context, Poll};

use futures::{AsyncRead, AsyncWrite};
use watchfire_bitswap::{Message, Protocol};

use super::message_writer::MessageWriter;
use super::protocols;

/// One stream for all messages, or one for control messages and one for blocks. With two streams,
/// short control messages do not wait behind long blocks.
#[derive(Debug)]
pub(super) struct SendStreams<S> {
    control: MessageWriter<S>,
    blocks: Option<MessageWriter<S>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> SendStreams<S> {
    pub(super) const fn single(stream: MessageWriter<S>) -> Self {
        SendStreams { control: stream, blocks: None }
    }

    pub(super) const fn split(control: MessageWriter<S>, blocks: MessageWriter<S>) -> Self {
        SendStreams { control, blocks: Some(blocks) }
    }

    /// Queues a message. The caller bounds the queue.
    pub(super) fn push(&mut self, message: Message, protocol: Protocol) {
        let Some(block_stream) = &mut self.blocks else {
            return push(&mut self.control, &message, protocol);
        };
        let (control, blocks) = message.apart();
        for (stream, message) in [(&mut self.control, control), (block_stream, blocks)] {
            if !message.is_empty() {
                push(stream, &message, protocol);
            }
        }
    }

    /// Writes the queues. Returns the number of bytes that were written since the last report, or
    /// the error that ended a stream.
    pub(super) fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = self.control.poll_written(cx) {
            return Poll::Ready(written);
        }
        self.blocks.as_mut().map_or(Poll::Pending, |blocks| blocks.poll_written(cx))
    }
}

fn push<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut MessageWriter<S>,
    message: &Message,
    protocol: Protocol,
) {
    protocols::encode(message, protocol).into_iter().for_each(|chunk| stream.push(chunk));
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::{Arc, Mutex};
    use std::task::Waker;

    use watchfire_bitswap::leaves::{self, ListMessage};
    use watchfire_bitswap::message::FrameReader;
    use watchfire_content::Block;

    use super::*;

    /// A stream that accepts this number of bytes, and then blocks.
    #[derive(Clone, Debug)]
    struct LimitedStream(Arc<Mutex<Vec<u8>>>, usize);

    impl AsyncWrite for LimitedStream {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let mut written = self.0.lock().unwrap();
            let bytes = &bytes[..bytes.len().min(self.1 - written.len())];
            written.extend_from_slice(bytes);
            if bytes.is_empty() { Poll::Pending } else { Poll::Ready(Ok(bytes.len())) }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncRead for LimitedStream {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Pending
        }
    }

    fn unsubscribe(list: u32) -> Message {
        Message { leaves: vec![ListMessage::Unsubscribe { list }], ..Message::default() }
    }

    #[test]
    fn control_messages_do_not_wait_behind_a_block_that_cannot_be_written() {
        let stream = || LimitedStream(Arc::default(), 4096);
        let (control, blocks) = (stream(), stream());
        let mut streams = SendStreams::split(
            MessageWriter::new(control.clone()),
            MessageWriter::new(blocks.clone()),
        );
        let block = Block::raw(vec![7; 1 << 20].into()).unwrap();
        let leaf = ListMessage::Leaf { list: 1, leaf: 0, block };
        let message = Message {
            leaves: vec![leaf, ListMessage::Unsubscribe { list: 1 }],
            ..Message::default()
        };
        streams.push(message, Protocol::Leaves);
        streams.push(unsubscribe(2), Protocol::Leaves);

        let mut cx = Context::from_waker(Waker::noop());
        let mut written = 0;
        while let Poll::Ready(bytes) = streams.poll_written(&mut cx) {
            written += bytes.unwrap();
        }
        let control_bytes =
            leaves::encoded_len(&unsubscribe(1)) + leaves::encoded_len(&unsubscribe(2));
        assert_eq!(written, control_bytes);
        let mut reader = FrameReader::default();
        reader.push(&control.0.lock().unwrap());
        for list in [1, 2] {
            let frame = reader.next_frame().unwrap().unwrap();
            assert_eq!(leaves::decode(&frame), Ok(unsubscribe(list)));
        }
        assert_eq!(blocks.0.lock().unwrap().len(), 4096);
    }

    #[test]
    fn the_written_part_of_a_long_message_is_reported_before_its_end() {
        let stream = LimitedStream(Arc::default(), 100_000);
        let mut streams = SendStreams::single(MessageWriter::new(stream));
        let block = Block::raw(vec![7; 1 << 20].into()).unwrap();
        let leaf = ListMessage::Leaf { list: 1, leaf: 0, block };
        streams.push(Message { leaves: vec![leaf], ..Message::default() }, Protocol::Leaves);
        let mut cx = Context::from_waker(Waker::noop());
        let report = streams.poll_written(&mut cx);
        assert!(matches!(report, Poll::Ready(Ok(100_000))), "{report:?}");
        assert!(streams.poll_written(&mut cx).is_pending());
    }
}
