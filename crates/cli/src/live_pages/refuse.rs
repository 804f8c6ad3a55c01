//! Getting or holding a live page, which cannot work.

use watchfire_content::Cid;
use watchfire_content::live::Beginning;
use watchfire_store::{DiskStore, ReadBlocks as _};

/// Whether content in a store is a live page.
pub fn is_live(store: &DiskStore, cid: &Cid) -> bool {
    let first = store.get(cid).ok().flatten();
    first.is_some_and(|block| Beginning::decode(block.bytes()).is_ok())
}

/// Fails if the content that was fetched is a live page, and stops holding it. No block of a live page links to its entries. A
/// peer that held only its first block would look like one that has all of it.
pub fn refuse_to_hold(store: &DiskStore, cid: &Cid) -> anyhow::Result<()> {
    if is_live(store, cid) {
        store.unpin(cid)?;
        anyhow::bail!(
            "cannot hold {cid}: it is a live page; `watchfire get --follow --store FOLDER` keeps its entries and serves them"
        );
    }
    Ok(())
}
