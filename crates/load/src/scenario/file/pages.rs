//! `[pages.NAME]`: pages that users load from each other.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::SourceText;
use watchfire_report::units::BytesText;

use super::BUILT_IN;
use crate::sampling::seed_for;
use crate::scenario::{Page, ScenarioError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageFile {
    /// That many random bytes.
    random: BytesText,
}

/// The pages, in the order of their names.
pub(super) fn pages(
    all: &BTreeMap<String, Spanned<PageFile>>,
    seed: u64,
    source: &SourceText<'_>,
) -> Result<Vec<Page>, ScenarioError> {
    let pages = all.iter().enumerate().map(|(index, (name, page))| {
        let at = page.span().start;
        if BUILT_IN.contains(&name.as_str()) {
            return Err(source.error(at, name, "this name is built in"));
        }
        let seed = seed_for(seed, index as u64, 0x7061_6765);
        Page::random(page.get_ref().random.0, seed)
            .map_err(|problem| source.error(at, "random", problem))
    });
    pages.collect()
}
