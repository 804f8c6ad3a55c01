//! Names of pages.

use watchfire_content::{Cid, CidError, Version};

pub(crate) const TOPIC_PREFIX: &str = "page:";

pub(crate) fn topic_of(page: &str) -> String {
    format!("{TOPIC_PREFIX}{page}")
}

/// Checks the name of a page: the canonical text of a CIDv1, so that one content has one name.
pub(crate) fn check_cid(page: &str) -> Result<(), String> {
    let cid: Cid = page.parse().map_err(|error: CidError| error.to_string())?;
    match cid.version() {
        Version::V0 => Err("a page is named by a CIDv1, not a CIDv0".into()),
        Version::V1 if cid.to_string() != page => {
            Err(format!("the CID is not in its canonical form, which is {cid}"))
        }
        Version::V1 => Ok(()),
    }
}
