use std::collections::BTreeMap;

use watchfire_content::Cid;

/// Blocks that the store still reads for peers that disconnected. They count as memory until the
/// store answers. Otherwise a peer that reconnects all the time could start reads without limit.
#[derive(Debug)]
pub(super) struct AbandonedReads<P> {
    /// The expected bytes of each read. A peer that reconnected may have left the same block twice.
    reads: BTreeMap<(P, Cid), Vec<usize>>,
    pub bytes: usize,
}

impl<P: Copy + Ord> AbandonedReads<P> {
    pub(super) const fn new() -> Self {
        AbandonedReads { reads: BTreeMap::new(), bytes: 0 }
    }

    /// A peer disconnected while these blocks were read for it.
    pub(super) fn add(&mut self, peer: P, reading: BTreeMap<Cid, usize>) {
        for (cid, len) in reading {
            self.bytes += len;
            self.reads.entry((peer, cid)).or_default().push(len);
        }
    }

    /// The store answered a read that may be one of these.
    pub(super) fn read(&mut self, peer: P, cid: &Cid) {
        let key = (peer, cid.clone());
        let Some(lens) = self.reads.get_mut(&key) else { return };
        self.bytes -= lens.pop().unwrap_or_default();
        if lens.is_empty() {
            self.reads.remove(&key);
        }
    }
}
