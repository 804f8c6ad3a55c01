//! Connections that another process should have.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use edge::{Adopter, Parcel};
use serde::{Deserialize, Serialize};
use vocab::NodeId;
use workers::HandOver;

use super::Cluster;
use crate::presence::lock;

/// A process takes strangers from a crowded one while it has room for so many more than that one.
const EMPTIER_BY: u64 = 8;

/// What goes along with a connection's descriptor.
#[derive(Serialize, Deserialize)]
struct Label<'a> {
    hops: u8,
    pair_peer: Option<SocketAddr>,
    bytes: &'a [u8],
}

impl Cluster {
    /// Connections for this process go this way from now on.
    pub fn hand_over_by(&self, to: NodeId, hand_over: Arc<HandOver>) {
        lock(&self.hand_overs).insert(to, hand_over);
    }

    /// Give a connection to another process: to this one, or, as we are crowded, to any that clearly
    /// is not. Gives it back when that cannot be.
    pub fn hand_over(&self, to: Option<NodeId>, parcel: Parcel) -> Result<(), Parcel> {
        let emptiest = || {
            // That we are crowded, the shard knows better than the last census.
            let ours = self.connections_max;
            let (node, fill) = self.others().min_by_key(|(_, fill)| fill.connections)?;
            (fill.connections + EMPTIER_BY <= ours - ours / 16).then_some(node)
        };
        let Some(to) = to.or_else(emptiest) else { return Err(parcel) };
        let Some(hand_over) = lock(&self.hand_overs).get(&to).cloned() else { return Err(parcel) };
        let Parcel { hops, pair_peer, ref bytes, ref fd } = parcel;
        let label = Label { hops, pair_peer, bytes };
        let label = postcard::to_stdvec(&label).expect("a label is plain data");
        hand_over.send(fd.as_fd(), &label).map_err(|_| parcel)
    }
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
        if let Ok(Label { hops, pair_peer, bytes }) = postcard::from_bytes(&label) {
            adopter.adopt(Parcel { fd, bytes: bytes.to_vec(), pair_peer, hops }).ok();
        }
    }
    // A new one may have taken its place already.
    lock(&cluster.hand_overs).retain(|node, its| *node != from || !Arc::ptr_eq(its, &hand_over));
}
