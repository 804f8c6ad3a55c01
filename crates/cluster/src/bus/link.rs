//! One link: a socket on the bus's thread.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::unix::OwnedReadHalf;
use tokio::task::JoinHandle;
use watchfire_types::NodeId;

use crate::bus::driver::{Driver, call, notify_ready};
use crate::bus::frame::{Decoder, Frame, FrameError};
use crate::bus::outbox::Entry;
use crate::bus::writing::WritingHalf;
use crate::bus::{Handler, Loss};

pub(crate) struct Link {
    pub node: NodeId,
    pub handler: Arc<dyn Handler>,
    pub writing: Arc<WritingHalf>,
    read: RefCell<Option<OwnedReadHalf>>,
    task: RefCell<Option<JoinHandle<()>>>,
}

/// The reason why a link ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Eof,
    Io(io::Error),
    Full,
    Malformed(FrameError),
    UnexpectedAck,
    Panicked,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Eof => f.write_str("the other end closed the link"),
            Ended::Io(error) => error.fmt(f),
            Ended::Full => f.write_str("the queue is full"),
            Ended::Malformed(error) => error.fmt(f),
            Ended::UnexpectedAck => f.write_str("an acknowledgement of a number that was not sent"),
            Ended::Panicked => f.write_str("the handler panicked"),
        }
    }
}

impl Link {
    pub fn new(node: NodeId, stream: UnixStream, handler: Arc<dyn Handler>) -> io::Result<Self> {
        let (read, write) = tokio::net::UnixStream::from_std(stream)?.into_split();
        Ok(Link {
            node,
            handler,
            writing: Arc::new(WritingHalf::new(node, write)),
            read: RefCell::new(Some(read)),
            task: RefCell::default(),
        })
    }

    /// Sets the task that runs this link; [`Link::abort`] ends it.
    pub fn set_task(&self, task: JoinHandle<()>) {
        self.task.replace(Some(task));
    }

    pub fn abort(&self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// Reads, and waits for space to write, until the link ends.
    pub async fn run(&self, driver: &Driver) -> Ended {
        tokio::select! {
            ended = self.read(driver) => ended,
            error = self.writing.wait_for_room(&driver.shared) => Ended::Io(error),
        }
    }

    async fn read(&self, driver: &Driver) -> Ended {
        let mut read = self.read.take().expect("a link is run once");
        let mut decoder = Decoder::new(driver.shared.limits.message_bytes_max);
        loop {
            let batch = std::future::poll_fn(|context| {
                self.read_batch(driver, &mut read, &mut decoder, context)
            });
            if let Err(ended) = batch.await {
                return ended;
            }
        }
    }

    fn read_batch(
        &self,
        driver: &Driver,
        read: &mut OwnedReadHalf,
        decoder: &mut Decoder,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Ended>> {
        let mut buffer = driver.buffer.borrow_mut();
        let mut buffer = ReadBuf::new(&mut buffer);
        if let Err(error) = ready!(Pin::new(read).poll_read(context, &mut buffer)) {
            return Poll::Ready(Err(Ended::Io(error)));
        }
        if buffer.filled().is_empty() {
            return Poll::Ready(Err(Ended::Eof));
        }
        Poll::Ready(self.handle(driver, decoder, buffer.filled()))
    }

    fn handle(
        &self,
        driver: &Driver,
        decoder: &mut Decoder,
        mut input: &[u8],
    ) -> Result<(), Ended> {
        let (shared, bytes) = (&*driver.shared, input.len() as u64);
        // Report withdrawn topics before messages of a new subscription of them.
        driver.forget();
        let (mut messages, mut requested) = (0, 0);
        while let Some(frame) = decoder.decode(&mut input).map_err(Ended::Malformed)? {
            match frame {
                Frame::Message(message) => {
                    messages += 1;
                    self.call(|handler| handler.message(self.node, message))?;
                }
                Frame::Subscribe { seq, topic } => {
                    requested = requested.max(seq);
                    let is_new = shared.lock().interest.subscribed(self.node, topic);
                    if is_new {
                        self.call(|handler| handler.interested(self.node, topic))?;
                    }
                }
                Frame::Unsubscribe { topic } => {
                    shared.lock().interest.unsubscribed(self.node, topic);
                    self.call(|handler| handler.uninterested(self.node, topic))?;
                }
                Frame::Ack { seq } => {
                    let acked = shared.lock().interest.acked(self.node, seq);
                    let ready_up_to = acked.map_err(|_| Ended::UnexpectedAck)?;
                    notify_ready(&*self.handler, ready_up_to);
                }
            }
        }
        let mut state = shared.lock();
        state.counted.bytes_in += bytes;
        state.counted.messages_in += messages;
        if requested > 0 {
            // One acknowledgement for all, after the messages that the handler sent.
            let _ = state.push(self.node, Entry::ack(requested), Loss::Cut);
        }
        shared.wake(state);
        Ok(())
    }

    fn call(&self, work: impl FnOnce(&dyn Handler)) -> Result<(), Ended> {
        if call(&*self.handler, work) { Ok(()) } else { Err(Ended::Panicked) }
    }
}
