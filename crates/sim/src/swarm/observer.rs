//! The view of an onlooker on a simulation: its progress, and each event.

use std::time::Duration;

use super::{Instant, Node, Peer, Progress, Swarm};

/// Sees a simulation. It cannot change its course.
pub trait Observer {
    /// Called every few thousand steps, and once at the end. `peers` has an entry for each peer of the plan.
    fn progress(&mut self, _: Progress, _: &mut dyn Iterator<Item = PeerProgress>) {}

    /// Whether the observer is told each event. An event costs a few nanoseconds and no memory afterwards.
    fn sees_events(&self) -> bool {
        false
    }

    fn event(&mut self, _: &Event) {}
}

/// An observer of nothing but the progress.
pub(super) struct ProgressOnly<'a>(pub &'a mut dyn FnMut(Progress));

impl Observer for ProgressOnly<'_> {
    fn progress(&mut self, progress: Progress, _: &mut dyn Iterator<Item = PeerProgress>) {
        (self.0)(progress);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeerProgress {
    /// The share of all blocks that it has.
    pub part: f64,
    pub is_online: bool,
}

/// Something that happened in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub at: Duration,
    pub kind: EventKind,
    /// The index of the peer in the plan.
    pub from: usize,
    /// The other peer, if the event has two.
    pub to: Option<usize>,
    /// The length of the message or the block; 0 for other events.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Arrive,
    Leave,
    Connect,
    Disconnect,
    /// A message begins to wait for the uplink of its sender.
    Send,
    /// The last byte of a message arrived at `to`.
    Receive,
    /// `from` read a block for `to`.
    Read,
    /// `from` stored a new block.
    Store,
    /// `from` has all blocks.
    Finish,
}

impl EventKind {
    pub const fn name(self) -> &'static str {
        match self {
            EventKind::Arrive => "arrive",
            EventKind::Leave => "leave",
            EventKind::Connect => "connect",
            EventKind::Disconnect => "disconnect",
            EventKind::Send => "send",
            EventKind::Receive => "receive",
            EventKind::Read => "read",
            EventKind::Store => "store",
            EventKind::Finish => "finish",
        }
    }
}

impl Swarm<'_> {
    /// Notes an event, if the observer is told events.
    pub(super) fn note(&mut self, kind: EventKind, from: Peer, to: Option<Peer>, bytes: u64) {
        if let Some(events) = &mut self.events {
            let at = self.now.since(Instant::ZERO);
            let (from, to) = (from.0 as usize, to.map(|peer| peer.0 as usize));
            events.push(Event { at, kind, from, to, bytes });
        }
    }

    /// Tells the observer the events of a step.
    pub(super) fn tell_events(&mut self, observer: &mut dyn Observer) {
        for event in self.events.iter_mut().flat_map(|events| events.drain(..)) {
            observer.event(&event);
        }
    }

    pub(super) fn tell_progress(&self, observer: &mut dyn Observer) {
        let blocks = f64::from(self.dag.len().max(1));
        let peer = |node: &Node| PeerProgress {
            part: f64::from(node.held) / blocks,
            is_online: node.is_online,
        };
        observer.progress(self.progress(), &mut self.nodes.iter().map(peer));
    }
}
