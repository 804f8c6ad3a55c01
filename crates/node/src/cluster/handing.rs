//! Connections that another process should have.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use edge::{Adopter, Parcel, Taker};
use serde::{Deserialize, Serialize};
use vocab::NodeId;
use workers::HandOver;

use super::{Cluster, PROCESSES_MAX};
use crate::presence::lock;

/// A process takes strangers from a crowded one while it has room for so many more than that one.
const EMPTIER_BY: u64 = 8;

/// What goes along with a connection's descriptor.
#[derive(Serialize, Deserialize)]
struct Label<'a> {
    hops: u8,
    declined: u64,
    pair_peer: Option<SocketAddr>,
    bytes: &'a [u8],
}

impl Cluster {
    /// Connections for this process go this way from now on.
    pub fn hand_over_by(&self, to: NodeId, hand_over: Arc<HandOver>) {
        lock(&self.hand_overs).insert(to, hand_over);
    }

    /// Give a connection to another process. Gives it back when that cannot be.
    pub fn hand_over(&self, to: Taker, mut parcel: Parcel) -> Result<(), Parcel> {
        let room = match to {
            Taker::Owner(node) => return self.hand_over_to(node, parcel),
            // That we are crowded, the shard knows better than the last census.
            Taker::Roomier => self.connections_max / 16 + EMPTIER_BY,
            Taker::Anyone => 1,
        };
        parcel.declined |= bit(self.me);
        for node in self.with_room(room, parcel.declined) {
            match self.hand_over_to(node, parcel) {
                Ok(()) => return Ok(()),
                Err(back) => parcel = back,
            }
        }
        Err(parcel)
    }

    /// Those that have room for so many more, as far as is known, and are not among those that have
    /// declined; the emptiest first.
    fn with_room(&self, room: u64, declined: u64) -> impl Iterator<Item = NodeId> {
        let others = self.others().filter(|(node, _)| bit(*node) & declined == 0);
        let mut filled: Vec<_> = others.map(|(node, fill)| (fill.connections, node)).collect();
        filled.retain(|(connections, _)| connections + room <= self.connections_max);
        filled.sort_unstable();
        filled.into_iter().map(|(_, node)| node)
    }

    fn hand_over_to(&self, node: NodeId, parcel: Parcel) -> Result<(), Parcel> {
        let hand_over = lock(&self.hand_overs).get(&node).cloned();
        let Some(hand_over) = hand_over else { return Err(parcel) };
        let Parcel { hops, declined, pair_peer, ref bytes, ref fd } = parcel;
        let label = Label { hops, declined, pair_peer, bytes };
        let label = postcard::to_stdvec(&label).expect("a label is plain data");
        hand_over.send(fd.as_fd(), &label).map_err(|_| parcel)
    }
}

/// A process's place in [`Parcel::declined`].
fn bit(node: NodeId) -> u64 {
    const { assert!(PROCESSES_MAX <= 64) };
    1 << node.0
}

/// Take in what another process hands over, until it is gone.
pub(crate) async fn receive(
    cluster: Arc<Cluster>,
    from: NodeId,
    hand_over: Arc<HandOver>,
    adopter: Adopter,
) {
    while let Ok(Some((fd, label))) = hand_over.recv().await {
        // What cannot be read is closed: its client tries again.
        if let Ok(Label { hops, declined, pair_peer, bytes }) = postcard::from_bytes(&label) {
            let bytes = bytes.to_vec();
            adopter.adopt(Parcel { fd, bytes, pair_peer, hops, declined }).ok();
        }
    }
    // A new one may have taken its place already.
    lock(&cluster.hand_overs).retain(|node, its| *node != from || !Arc::ptr_eq(its, &hand_over));
}
