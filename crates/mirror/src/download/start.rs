//! Fetches the blocks that the start of a container reads, as [`crate::store::StartOrder`] explains, together with
//! other hosts.
//!
//! While it runs, this host requests from others only the blocks that its readers wait for and those of the order.
//! For a block that no host has, it takes the lease of the segment, fetches what the start needs of it, and
//! gives the lease back. Hosts that start together read nearly the same, so the first one fetches for all.

use std::ops::Range;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use watchfire_p2p::BlockSession;

use super::DownloadError;
use super::connection::Connection;
use super::spread::{SpreadTask, blocks_of, fetch_blocks, segment_of};

/// How long a lease is kept after its last block, so that the others learn the hash before they may fetch the block too.
const LEASE_TAIL: Duration = Duration::from_millis(100);
/// How long a host that begins waits for hashes of others, before it fetches a block that one of them may have.
const FIRST_HASHES_WAIT: Duration = Duration::from_millis(250);
/// How often to look for a block that is needed next.
const LEASE_TICK: Duration = Duration::from_millis(20);

impl SpreadTask {
    pub(super) fn is_needed(&self, block: usize) -> bool {
        self.connection.is_needed(block)
    }

    /// A block that the start needs, and that has to come from the registry: no host names its hash, or none sends it.
    pub(super) fn unknown_needed(&self, is_stalled: bool) -> Option<usize> {
        let is_wanted =
            |block| !self.is_leased(block) && is_unknown(&self.connection, block, is_stalled);
        self.connection.needed(is_wanted).map(|blocks| blocks.start)
    }

    /// A reader waits. Returns whether the coordinator has to hear of it immediately.
    pub(super) async fn note_reader(
        &mut self,
        session: &BlockSession,
    ) -> Result<bool, DownloadError> {
        if !self.connection.is_starting() {
            return self.note_end_of_start(session).await;
        }
        self.is_starting = true;
        while let Some(blocks) = self.unrequested() {
            self.want_known(session, blocks).await?;
        }
        self.handle_tick().await;
        Ok(self.needs_other_segment())
    }

    /// The first blocks that a reader waits for, whose hashes are known, and that are not requested yet.
    fn unrequested(&self) -> Option<Range<usize>> {
        self.connection.waited_for(|block| {
            !self.is_leased(block)
                && !self.wanted.contains(&block)
                && !self.connection.blob.has_block(block)
                && self.spread.known.get(block).is_some()
        })
    }

    /// Whether the start needs another segment than the last report named.
    pub(super) fn needs_other_segment(&self) -> bool {
        let block = self.unknown_needed(false).filter(|_| self.is_starting);
        let segment = block.map(segment_of);
        segment.is_some() && segment != self.needed_segment
    }

    /// Requests all other blocks when the start is over. Returns whether it is over since the last look.
    pub(super) async fn note_end_of_start(
        &mut self,
        session: &BlockSession,
    ) -> Result<bool, DownloadError> {
        if !self.is_starting {
            return Ok(false);
        }
        self.is_starting = self.connection.is_starting();
        let ordered = self.connection.blob.start_order().count();
        let before = std::mem::replace(&mut self.ordered_blocks, ordered);
        // While the start runs, another host may have sent an order.
        if !self.is_starting || ordered != before {
            self.want_known(session, 0..self.connection.blocks).await?;
        }
        Ok(!self.is_starting)
    }
}

fn is_unknown(connection: &Connection, block: usize, is_stalled: bool) -> bool {
    let is_known = connection.spread.as_ref().is_some_and(|one| one.known.get(block).is_some());
    !connection.blob.has_block(block) && (is_stalled || !is_known)
}

/// Fetches the blocks of a segment that the start needs, until it needs no more for a moment or is over. `may_be_known`:
/// other hosts may have these blocks, and have not answered yet.
pub(super) async fn fetch_needed(
    connection: &Connection,
    segment: u32,
    is_stalled: bool,
    may_be_known: bool,
) -> Result<(), DownloadError> {
    if let Some(spread) = connection.spread.as_ref().filter(|_| may_be_known) {
        let limit = spread.fleet.extend(FIRST_HASHES_WAIT);
        let _ = timeout(limit, spread.known.any()).await;
    }
    let blocks = blocks_of(segment, connection.blocks);
    let is_wanted = |block| is_unknown(connection, block, is_stalled);
    let mut quiet = Duration::ZERO;
    while quiet < LEASE_TAIL && connection.is_starting() {
        let before = connection.blob.blocks_present();
        let needed = connection.needed(|block| blocks.contains(&block) && is_wanted(block));
        if let Some(Range { start, end }) = needed {
            fetch_blocks(connection, start..end.min(blocks.end), is_wanted).await?;
        }
        if connection.blob.blocks_present() > before {
            quiet = Duration::ZERO;
            continue;
        }
        sleep(LEASE_TICK).await;
        quiet += LEASE_TICK;
    }
    Ok(())
}
