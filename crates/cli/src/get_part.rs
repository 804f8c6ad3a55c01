//! `watchfire get` of one file of a private page: it fetches only the blocks of the ciphertext that
//! hold the index and the file.

use std::time::Instant;

use watchfire_content::{Block, Cid};
use watchfire_p2p::{Fetched, Host, Progress};
use watchfire_store::{DiskStore, PrivateReader, ReadBlocks as _};

use crate::fetching::{Ending, WaitOptions, wait};
use crate::page_clients::Announcer;
use crate::progress::{ProgressLine, Step};
use crate::serving::peers_of;
use crate::signals::Signals;

/// Blocks that are requested at the same time.
const WINDOW: usize = 16;

/// Fetches what `reader` needs into `blocks`, where the host stores received blocks. `step` is
/// called regularly to use the blocks so far. A wrong key or an unknown name fails as soon as the
/// first blocks have arrived.
pub async fn fetch_part(
    host: &Host,
    mut reader: PrivateReader,
    blocks: &DiskStore,
    signals: &mut Signals,
    options: &WaitOptions,
    mut step: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Ending> {
    let started = Instant::now();
    let mut line = ProgressLine::start(options.is_quiet || options.is_json);
    // Each block is a fetch of its own; the progress line shows all of them.
    let quiet = WaitOptions { timeout: options.timeout, is_json: false, is_quiet: true };
    let mut progress = Progress::default();
    let mut read_bytes = 0;
    let mut opened = Vec::new();
    loop {
        while let Some(cid) = reader.next() {
            let Some(block) = read_block(blocks, cid)? else { break };
            read_bytes += block.bytes().len() as u64;
            reader.take(&block, &mut opened)?;
            opened.clear();
        }
        step()?;
        if reader.next().is_none() {
            break;
        }
        let mut missing = Vec::new();
        for cid in reader.wanted() {
            if missing.len() < WINDOW
                && !missing.contains(cid)
                && read_block(blocks, cid)?.is_none()
            {
                missing.push(cid.clone());
            }
        }
        let mut fetches = Vec::with_capacity(missing.len());
        for cid in missing {
            fetches.push((host.fetch_block(cid.clone()).await?, cid));
        }
        for (fetch, cid) in fetches {
            let announcer = Announcer::of(Vec::new());
            match wait(fetch, &cid, &announcer, signals, &quiet, |_| Ok(())).await? {
                Ending::Complete(Fetched { progress: one, .. }) => {
                    progress.fetched_bytes += one.fetched_bytes;
                    progress.fetched_blocks += one.fetched_blocks;
                    progress.peers = progress.peers.max(one.peers);
                }
                ending => return Ok(ending),
            }
            line.show(&Step {
                bytes: progress.fetched_bytes,
                total_bytes: reader.part_bytes(),
                bytes_per_second: None,
                note: peers_of(progress.peers),
            });
        }
    }
    reader.finish()?;
    progress.present_bytes = read_bytes.saturating_sub(progress.fetched_bytes);
    Ok(Ending::Complete(Fetched { progress, took: started.elapsed() }))
}

fn read_block(blocks: &DiskStore, cid: &Cid) -> anyhow::Result<Option<Block>> {
    Ok(match Block::from_cid(cid) {
        Some(block) => Some(block),
        None => blocks.get(cid)?,
    })
}
