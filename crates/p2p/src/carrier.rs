//! Peers that are not libp2p's: whatever carries their messages, the host's one exchange speaks
//! with them as with all others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bitswap::message::{MESSAGE_BYTES_MAX, MessageError};
use bitswap::{Message, Protocol};
use bytes::Bytes;
use content::Cid;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::host::Stopped;

/// Messages of guests that wait for the host; the carrier that brings a further one waits.
pub(crate) const WORDS_MAX: usize = 64;
/// Bytes of messages that one carrier brought and the host has not taken; it waits with the next.
const ARRIVING_BYTES_MAX: usize = 8 << 20;

// The largest message fits when nothing else is there.
const _: () = assert!(MESSAGE_BYTES_MAX <= ARRIVING_BYTES_MAX);

/// A peer whose messages a [`Carrier`] carries; never used for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guest(pub(crate) u64);

/// Whether a guest may be asked for a block at all. What others are asked for is none of its
/// business: whoever knows a CID can ask for what it names.
pub type Scope = Arc<dyn Fn(&Cid) -> bool + Send + Sync>;

/// What a carrier is to do.
#[derive(Debug)]
pub enum Errand {
    /// Write this to the guest, and tell with [`Carrier::sent`] when it is through.
    Send {
        /// To whom.
        guest: Guest,
        /// The message, without a length before it.
        message: Bytes,
    },
    /// Let nothing of this guest in any more: it is no good. It is disconnected already.
    Dismiss {
        /// Whom.
        guest: Guest,
    },
}

/// The way to a carrier. The host keeps to the room of each guest.
pub(crate) type Errands = mpsc::UnboundedSender<Errand>;

/// What a carrier tells the host.
pub(crate) enum Word {
    Connected { guest: Guest, protocol: Protocol, scope: Option<Scope>, errands: Errands },
    Disconnected { guest: Guest },
    Arriving { guest: Guest },
    Message { guest: Guest, message: Message, bytes: usize, _place: OwnedSemaphorePermit },
    Malformed { guest: Guest },
    Sent { guest: Guest, bytes: usize },
}

/// Carries messages between the host and peers that are not libp2p's.
///
/// When it is dropped, all its guests are gone.
#[derive(Debug)]
pub struct Carrier {
    words: mpsc::Sender<Word>,
    numbers: Arc<AtomicU64>,
    room: Arc<Semaphore>,
    /// Filled by the host within the room of each guest.
    errands: mpsc::UnboundedReceiver<Errand>,
    errands_sender: Errands,
}

impl Carrier {
    pub(crate) fn new(words: mpsc::Sender<Word>, numbers: Arc<AtomicU64>) -> Self {
        let (errands_sender, errands) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(ARRIVING_BYTES_MAX));
        Carrier { words, numbers, room, errands, errands_sender }
    }

    /// A peer is here that messages can be sent to. Without a scope it may be asked for everything.
    pub async fn connect(
        &self,
        protocol: Protocol,
        scope: Option<Scope>,
    ) -> Result<Guest, Stopped> {
        let guest = Guest(self.numbers.fetch_add(1, Ordering::Relaxed));
        let errands = self.errands_sender.clone();
        self.say(Word::Connected { guest, protocol, scope, errands }).await?;
        Ok(guest)
    }

    /// A peer is gone; what was not sent is lost.
    pub async fn disconnect(&self, guest: Guest) -> Result<(), Stopped> {
        self.say(Word::Disconnected { guest }).await
    }

    /// Part of a message came of a peer.
    pub async fn arriving(&self, guest: Guest) -> Result<(), Stopped> {
        self.say(Word::Arriving { guest }).await
    }

    /// A message came, whole and without a length before it. It is read, and the blocks in it are
    /// hashed, right here. Waits while the host has much to do.
    ///
    /// What is no message is told to the host as well, which bears it only so often.
    pub async fn received(
        &self,
        guest: Guest,
        message: &Bytes,
    ) -> Result<Result<(), MessageError>, Stopped> {
        let bytes = message.len();
        let permits = u32::try_from(bytes.min(ARRIVING_BYTES_MAX)).unwrap_or(u32::MAX);
        let place = Arc::clone(&self.room).acquire_many_owned(permits).await;
        let _place = place.map_err(|_| Stopped)?;
        match bitswap::message::decode(message) {
            Ok(message) => self.say(Word::Message { guest, message, bytes, _place }).await.map(Ok),
            Err(error) => self.malformed(guest).await.map(|()| Err(error)),
        }
    }

    /// A peer sent what cannot be a message.
    pub async fn malformed(&self, guest: Guest) -> Result<(), Stopped> {
        self.say(Word::Malformed { guest }).await
    }

    /// A message of so many bytes to a peer is through, and its pipe has room again.
    pub async fn sent(&self, guest: Guest, bytes: usize) -> Result<(), Stopped> {
        self.say(Word::Sent { guest, bytes }).await
    }

    /// What is to be done next.
    pub async fn next(&mut self) -> Errand {
        match self.errands.recv().await {
            Some(errand) => errand,
            // We hold a sender.
            None => std::future::pending().await,
        }
    }

    async fn say(&self, word: Word) -> Result<(), Stopped> {
        self.words.send(word).await.map_err(|_| Stopped)
    }
}
