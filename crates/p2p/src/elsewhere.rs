//! Blocks that are in no store, and can be had nevertheless.

use bitswap::Want;
use content::{Block, Cid};
use tokio::sync::mpsc;

use crate::host::{Command, Stopped};

/// Who wants a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A peer of libp2p's.
    Peer,
    /// A guest, see [`Carrier`](crate::Carrier).
    Guest,
}

/// Knows of blocks that no store has and that can be had, if somebody wants them.
pub trait Elsewhere: Send + Sync {
    /// Somebody wants this block, and no store has it. Whether it shall wait for it: then
    /// [`Host::have`](crate::Host::have) or [`Host::lacks`](crate::Host::lacks) must follow, or
    /// nobody is ever answered about this block.
    ///
    /// Called on the host's own thread, again and again; it must not wait.
    fn wanted(&self, cid: &Cid, asker: Asker) -> bool;
}

/// There is nothing elsewhere.
#[derive(Debug)]
pub(crate) struct Nowhere;

impl Elsewhere for Nowhere {
    fn wanted(&self, _: &Cid, _: Asker) -> bool {
        false
    }
}

/// Which of a host's seekers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SeekerId(pub(crate) u64);

/// What a [`Seeker`] hears.
#[derive(Debug)]
pub enum Sought {
    /// A block that was wanted, verified. It is in no store.
    Here(Block),
    /// Nobody who is connected is known to have this one; others are being looked for.
    Searching(Cid),
}

/// Wants blocks one by one, of all peers of a host. Dropping it takes all wants back.
#[derive(Debug)]
pub struct Seeker {
    pub(crate) id: SeekerId,
    pub(crate) commands: mpsc::Sender<Command>,
    /// Holds no more than was wanted, and a word for each search.
    pub(crate) sought: mpsc::UnboundedReceiver<Sought>,
}

impl Seeker {
    /// Wants these too.
    pub async fn want(&self, wants: Vec<Want>) -> Result<(), Stopped> {
        let command = Command::Want { seeker: self.id, wants };
        self.commands.send(command).await.map_err(|_| Stopped)
    }

    /// Wants these no more.
    pub async fn unwant(&self, cids: Vec<Cid>) -> Result<(), Stopped> {
        let command = Command::Unwant { seeker: self.id, cids };
        self.commands.send(command).await.map_err(|_| Stopped)
    }

    /// What happens next; `None` when the host has stopped.
    pub async fn next(&mut self) -> Option<Sought> {
        self.sought.recv().await
    }
}
