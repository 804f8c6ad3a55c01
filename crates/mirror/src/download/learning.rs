//! Learns the hashes of blocks from other hosts, and requests the blocks.

use std::ops::Range;
use std::time::Duration;

use watchfire_bitswap::Want;
use watchfire_content::Block;
use watchfire_fleet::Learned;
use watchfire_p2p::{BlockSession, PeerId};

use super::DownloadError;
use super::spread::{HashAnswer, Neighbour, SpreadTask};
use crate::store::{cid_of, hash_of};

/// Answers without a hash after which a neighbour is replaced.
const EMPTY_ANSWERS_MAX: u32 = 5;
/// Pause after such an answer.
const EMPTY_PAUSE: Duration = Duration::from_millis(300);

impl SpreadTask {
    /// Asks a host for hashes, unless it is asked already or there are `neighbours_max` neighbours.
    pub(super) fn add_neighbour(&mut self, peer: PeerId, neighbours_max: usize) {
        if self.neighbours.len() < neighbours_max && !self.neighbours.contains_key(&peer) {
            self.neighbours.insert(peer, Neighbour::default());
            self.ask_for_hashes(peer, Duration::ZERO);
        }
    }

    pub(super) fn ask_for_hashes(&mut self, peer: PeerId, pause: Duration) {
        let Some(neighbour) = self.neighbours.get(&peer) else { return };
        let (list, after) = (neighbour.list, neighbour.after);
        self.task.sources.note_asked(peer);
        let (fleet, digest) = (self.fleet.clone(), self.task.digest.clone());
        let repository = self.repository.clone();
        self.asking.push(Box::pin(async move {
            tokio::time::sleep(pause).await;
            (peer, fleet.ask_hashes(peer, &digest, repository.as_ref(), list, after).await)
        }));
    }

    /// Takes over the hashes that a host knows, and requests their blocks.
    pub(super) async fn learn(
        &mut self,
        session: &BlockSession,
        peer: PeerId,
        answer: HashAnswer,
    ) -> Result<(), DownloadError> {
        self.has_answer = true;
        let Some(neighbour) = self.neighbours.get_mut(&peer) else { return Ok(()) };
        let mut pause = Duration::ZERO;
        let new = answer.as_ref().map(|hashes| hashes.as_ref().map(|(_, hashes)| hashes.len()));
        self.task.sources.note_hashes(peer, new);
        match answer {
            Ok(Some((list, hashes))) => {
                // Another download of that host has another order of hashes, so start again.
                if list != neighbour.list {
                    (neighbour.list, neighbour.after) = (list, 0);
                }
                neighbour.after += hashes.len();
                if hashes.is_empty() {
                    pause = EMPTY_PAUSE;
                }
                neighbour.empty_answers = 0;
                let mut wants = Vec::new();
                for (block, hash) in hashes {
                    match self.spread.known.insert(block, hash) {
                        Learned::New => wants.extend(self.want(block as usize, hash)),
                        Learned::Known => {}
                        // Only the digest of the whole blob can tell which hash is wrong. Until
                        // then the first hash stays, and this host is dropped.
                        Learned::Contradiction => {
                            tracing::warn!(%peer, digest = %self.task.digest, block, "hosts name different hashes of a block");
                            self.neighbours.remove(&peer);
                            break;
                        }
                    }
                }
                if !wants.is_empty() {
                    self.spread.progress.note();
                    session.want(wants).await.map_err(|_| DownloadError::Stopped)?;
                }
            }
            Ok(None) | Err(_) => {
                neighbour.empty_answers += 1;
                pause = EMPTY_PAUSE;
                if answer.is_err() || neighbour.empty_answers >= EMPTY_ANSWERS_MAX {
                    self.neighbours.remove(&peer);
                }
            }
        }
        self.ask_for_hashes(peer, pause);
        Ok(())
    }

    pub(super) fn want(&mut self, block: usize, hash: [u8; 32]) -> Option<Want> {
        let blob = &self.connection.blob;
        if blob.has_block(block)
            || self.is_leased(block)
            || (self.is_starting && !self.is_needed(block))
        {
            return None;
        }
        let len = u32::try_from(blob.block_range(block).1).ok();
        self.wanted.insert(block);
        Some(Want { len, ..Want::new(cid_of(hash)) })
    }

    pub(super) async fn want_known(
        &mut self,
        session: &BlockSession,
        blocks: Range<usize>,
    ) -> Result<(), DownloadError> {
        let known = self.spread.known.clone();
        let wants = blocks.filter_map(|block| {
            let is_requested = self.wanted.contains(&block);
            self.want(block, known.get(block)?).filter(|_| !is_requested)
        });
        let wants = wants.collect();
        session.want(wants).await.map_err(|_| DownloadError::Stopped)
    }

    /// Writes a block that another host sent.
    pub(super) async fn handle_block(
        &mut self,
        block: &Block,
        from: Option<PeerId>,
    ) -> Result<(), DownloadError> {
        let Some(hash) = hash_of(block.cid()) else { return Ok(()) };
        self.fleet.count_received(block.bytes().len());
        self.spread.progress.note();
        self.task.sources.count_host(from, block.bytes().len());
        for place in self.spread.known.places(&hash) {
            let place = place as usize;
            self.wanted.remove(&place);
            if self.connection.blob.has_block(place) {
                continue;
            }
            if self.connection.blob.block_range(place).1 != block.bytes().len() {
                tracing::warn!(digest = %self.task.digest, block = place, "a host named the hash of a block of another length");
                return Err(DownloadError::WrongDigest);
            }
            self.connection.write_block(place, block).await?;
        }
        Ok(())
    }

    /// Cancels the requests for blocks that this host got from the registry meanwhile.
    pub(super) async fn cancel_present(
        &mut self,
        session: &BlockSession,
    ) -> Result<(), DownloadError> {
        let blob = &self.connection.blob;
        let present: Vec<usize> =
            self.wanted.iter().copied().filter(|block| blob.has_block(*block)).collect();
        if present.is_empty() {
            return Ok(());
        }
        let mut cids = Vec::new();
        for block in present {
            self.wanted.remove(&block);
            cids.extend(self.spread.known.get(block).map(cid_of));
        }
        session.cancel(cids).await.map_err(|_| DownloadError::Stopped)
    }
}
