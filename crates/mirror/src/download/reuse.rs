//! Takes the chunks that a new version of a layer shares with older blobs from the disk.
//!
//! **Without it**, a rebuild that changes one file of a layer moves the whole layer again, because its digest differs.
//! An eStargz layer lists its chunks ([`super::toc`]). So a host that has an older version fetches first the blocks
//! with the TOC, and then those that the older blobs of the same repository do not have completely. It assembles the
//! rest. For example, of a layer of 300 MiB with one other file, four blocks of 1 MiB are fetched, in a fleet once for all
//! hosts.
//!
//! **Trust.** A TOC names digests of uncompressed chunks, so another builder, or a wrong TOC, gives other bytes. A
//! client that gets wrong bytes fails its pull. Therefore no assembled byte is written before the digest of the whole
//! blob is right: the blob is hashed in a first pass, and written in a second. If the digest is wrong, nothing is lost:
//! the blocks that were fetched stay, and the others are fetched as usual. A client waits for the first pass, which
//! takes about as long as reading the blob from the disk.
//!
//! Blobs of other repositories are not used: how fast a blob arrives would tell a tenant what another one has.
//!
//! The bounds: 64 blobs of the repository are looked at, and the newest 8 with a TOC are used. One TOC is read at a time. A
//! layer of fewer than 8 blocks or of more than 4,096 is fetched as usual, and so is one of which more than half is
//! new.

use std::collections::HashMap;
use std::ops::Range;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::task::JoinSet;
use watchfire_content::Block;

use super::connection::Connection;
use super::content_source::ContentSource;
use super::run::blocking;
use super::task::Task;
use super::toc::{FOOTER_BYTES, Member, members, toc_place};
use super::waiting::WaitingReaders;
use super::{DownloadError, Downloads};
use crate::oci::{Digest, Hasher};
use crate::store::{BLOCK_BYTES, Blob, BlobState, StoreError};

const BLOCKS: Range<usize> = 8..4_097;
const LOOKED_AT_MAX: usize = 64;
const OLD_BLOBS_MAX: usize = 8;

/// While it runs, a download fetches only the blocks that the reuse waits for, and those of a container that starts.
#[derive(Debug, Default)]
pub(super) struct Reuse {
    is_running: AtomicBool,
    pub(super) waiting: Arc<WaitingReaders>,
    /// The older blobs, until the reuse begins: it is tried once.
    old: Mutex<Vec<Digest>>,
}

impl Reuse {
    pub(super) fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Relaxed)
    }

    pub(super) fn has_old_blobs(&self) -> bool {
        !self.old.lock().is_empty()
    }
}

/// Ends the reuse, however that happens.
struct Running(Arc<Task>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.reuse.is_running.store(false, Ordering::Relaxed);
        self.0.waiting.wake();
    }
}

/// Where the bytes of a member are: in an old blob, from this place on.
struct Piece {
    place: Range<u64>,
    old: Arc<Blob>,
    start: u64,
}

impl Task {
    /// Looks for older blobs with a TOC.
    pub(super) async fn find_old_blobs(&self) {
        let ContentSource::Registry(pull) = &self.source else { return };
        let blocks = self.size.unwrap_or_default().div_ceil(BLOCK_BYTES as u64) as usize;
        if !BLOCKS.contains(&blocks) {
            return;
        }
        let bytes_min = (BLOCKS.start * BLOCK_BYTES) as u64;
        let (downloads, own) = (self.downloads.clone(), self.digest.clone());
        let large = downloads.catalog.large_content(&pull.id(), bytes_min, LOOKED_AT_MAX);
        let found = blocking(move || {
            let has_toc = |digest: &Digest| {
                let end = downloads.blobs.read_end::<FOOTER_BYTES>(digest);
                *digest != own && end.is_some_and(|(end, size)| toc_place(&end, size).is_some())
            };
            large.into_iter().filter(has_toc).take(OLD_BLOBS_MAX).collect()
        });
        *self.reuse.old.lock() = found.await.unwrap_or_default();
    }

    /// Begins the reuse, if there are older blobs. It ends when the result is dropped.
    pub(super) fn begin_reuse(
        self: &Arc<Self>,
        connection: impl FnOnce() -> Connection,
    ) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let old = std::mem::take(&mut *self.reuse.old.lock());
        if !old.is_empty() {
            self.reuse.is_running.store(true, Ordering::Relaxed);
            let (running, connection) = (Running(self.clone()), connection());
            tasks.spawn(async move {
                let digest = &running.0.digest;
                match connection.reuse(old).await {
                    Ok(Some(blocks)) => {
                        tracing::info!(%digest, blocks, "took blocks of a blob from older versions");
                    }
                    Ok(None) => tracing::debug!(%digest, "older versions of a blob do not help"),
                    Err(error) => tracing::warn!(%digest, %error, "cannot use older versions of a blob"),
                }
            });
        }
        tasks
    }
}

impl Connection {
    /// Assembles the blob from older ones. Returns the number of blocks that were not fetched; `None`: they are
    /// fetched as usual.
    async fn reuse(&self, old: Vec<Digest>) -> Result<Option<usize>, DownloadError> {
        let (blob, size) = (self.blob.clone(), self.blob.size());
        // A registry may send fewer bytes than its manifest says.
        let Some(at) = size.checked_sub(FOOTER_BYTES as u64) else { return Ok(None) };
        if !self.wait_for(slice::from_ref(&(at..size))).await {
            return Ok(None);
        }
        let footer = blocking(move || read::<FOOTER_BYTES>(&blob, at)).await??;
        let Some(toc) = footer.and_then(|footer| toc_place(&footer, size)) else { return Ok(None) };
        if !self.wait_for(slice::from_ref(&toc)).await {
            return Ok(None);
        }
        let (blob, downloads) = (self.blob.clone(), self.task.downloads.clone());
        let reading = downloads.reading_toc.lock().await;
        let planning = downloads.clone();
        let pieces = blocking(move || plan(&planning, &blob, toc, &old)).await??;
        drop(reading);
        let gaps = gaps(&pieces, size);
        if pieces.is_empty() || 2 * blocks_of(&gaps).count() > self.blob.blocks() {
            return Ok(None);
        }
        if !self.wait_for(&gaps).await {
            return Ok(None);
        }
        let missing: Vec<usize> =
            (0..self.blob.blocks()).filter(|block| !self.blob.has_block(*block)).collect();
        let (blob, progress) = (self.blob.clone(), self.task.progress.clone());
        let assembled = blocking(move || {
            let mut hasher = Hasher::new(blob.digest().algorithm());
            for block in 0..blob.blocks() {
                hasher.update(&assemble(&blob, block, &pieces)?);
                progress.note();
            }
            Ok::<_, StoreError>((hasher.finish() == *blob.digest()).then_some(pieces))
        });
        let Some(pieces) = assembled.await?? else {
            tracing::warn!(digest = %self.task.digest, "older versions of a blob have other bytes; fetching all of it");
            return Ok(None);
        };
        let pieces = Arc::new(pieces);
        for block in &missing {
            let (blob, pieces, block) = (self.blob.clone(), pieces.clone(), *block);
            let bytes = blocking(move || assemble(&blob, block, &pieces)).await??;
            let content = Block::raw(bytes.into()).expect("it is short enough for a block");
            self.write_block(block, &content).await?;
        }
        Ok(Some(missing.len()))
    }

    /// Waits until the blob has these bytes. Returns false if it is complete or wrong.
    async fn wait_for(&self, places: &[Range<u64>]) -> bool {
        let readers = &self.task.reuse.waiting;
        let ranges = places.iter().map(blocks_in);
        let _waiting: Vec<_> =
            ranges.map(|blocks| readers.wait_for(blocks.start, blocks.end - 1)).collect();
        self.task.waiting.wake();
        let mut changes = self.blob.changes();
        for block in blocks_of(places) {
            loop {
                changes.mark_unchanged();
                if self.blob.state() != BlobState::Partial {
                    return false;
                }
                if self.blob.has_block(block) {
                    break;
                }
                if changes.changed().await.is_err() {
                    return false;
                }
            }
        }
        true
    }
}

fn blocks_in(place: &Range<u64>) -> Range<usize> {
    (place.start / BLOCK_BYTES as u64) as usize..place.end.div_ceil(BLOCK_BYTES as u64) as usize
}

/// The blocks that have bytes of these places, which ascend.
fn blocks_of(places: &[Range<u64>]) -> impl Iterator<Item = usize> {
    let mut next = 0;
    places.iter().flat_map(move |place| {
        let blocks = blocks_in(place);
        let from = blocks.start.max(next);
        next = next.max(blocks.end);
        from..blocks.end
    })
}

fn read<const N: usize>(blob: &Blob, at: u64) -> Result<Option<[u8; N]>, StoreError> {
    Ok(blob.read_unverified(at, N)?.try_into().ok())
}

fn members_of(blob: &Blob, toc: Range<u64>) -> Result<Vec<Member>, StoreError> {
    let bytes = blob.read_unverified(toc.start, (toc.end - toc.start) as usize)?;
    Ok(members(&bytes, toc.start).unwrap_or_default())
}

/// The members of a blob that older ones have.
fn plan(
    downloads: &Downloads,
    blob: &Blob,
    toc: Range<u64>,
    old: &[Digest],
) -> Result<Vec<Piece>, StoreError> {
    let new = members_of(blob, toc)?;
    let mut found: HashMap<[u8; 32], Option<(Arc<Blob>, u64)>> =
        new.iter().map(|member| (member.key, None)).collect();
    for digest in old {
        let Some(old) = downloads.blobs.complete(digest)? else { continue };
        let Some(at) = old.size().checked_sub(FOOTER_BYTES as u64) else { continue };
        let footer = read::<FOOTER_BYTES>(&old, at)?;
        let toc = footer.and_then(|footer| toc_place(&footer, old.size()));
        for member in toc.map(|toc| members_of(&old, toc)).transpose()?.unwrap_or_default() {
            if let Some(place @ None) = found.get_mut(&member.key) {
                *place = Some((old.clone(), member.place.start));
            }
        }
    }
    let piece = |member: Member| {
        let (old, start) = found.get(&member.key)?.clone()?;
        Some(Piece { place: member.place, old, start })
    };
    Ok(new.into_iter().filter_map(piece).collect())
}

/// The places between the pieces.
fn gaps(pieces: &[Piece], size: u64) -> Vec<Range<u64>> {
    let ends = [0].into_iter().chain(pieces.iter().map(|piece| piece.place.end));
    let starts = pieces.iter().map(|piece| piece.place.start).chain([size]);
    ends.zip(starts).filter(|(end, start)| end < start).map(|(end, start)| end..start).collect()
}

/// A block that the blob has, or one that is made of pieces. What neither has stays zero.
fn assemble(blob: &Blob, block: usize, pieces: &[Piece]) -> Result<Vec<u8>, StoreError> {
    let (offset, len) = blob.block_range(block);
    if blob.has_block(block) {
        return blob.read_unverified(offset, len);
    }
    let (mut bytes, end) = (vec![0; len], offset + len as u64);
    let first = pieces.partition_point(|piece| piece.place.end <= offset);
    for piece in pieces[first..].iter().take_while(|piece| piece.place.start < end) {
        let (from, to) = (piece.place.start.max(offset), piece.place.end.min(end));
        let at = piece.start + (from - piece.place.start);
        let read = piece.old.read_unverified(at, (to - from) as usize)?;
        bytes[(from - offset) as usize..(to - offset) as usize].copy_from_slice(&read);
    }
    Ok(bytes)
}
