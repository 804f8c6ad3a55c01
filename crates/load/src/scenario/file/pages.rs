//! `[pages.NAME]`: pages that users load from each other.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::SourceText;
use watchfire_report::units::BytesText;

use super::BUILT_IN;
use crate::sampling::seed_for;
use crate::scenario::{Page, ScenarioError, Variables};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageFile {
    /// The size of its random content.
    random: BytesText,
}

/// Most pages of a load, because every process holds all of them.
const PAGES_MAX: usize = 1_000;

/// The pages, in the order of their names.
pub(super) fn pages(
    all: &BTreeMap<String, Spanned<PageFile>>,
    seed: u64,
    variables: &Variables,
    source: &SourceText<'_>,
) -> Result<Vec<Page>, ScenarioError> {
    let pages = all.iter().enumerate().map(|(index, (name, page))| {
        let at = page.span().start;
        if BUILT_IN.contains(&name.as_str()) {
            return Err(source.error(at, name, "this name is built in"));
        }
        if variables.drawn.iter().any(|(drawn, _)| drawn == name) {
            return Err(source.error(at, name, "a variable has this name; choose another one"));
        }
        if index == PAGES_MAX {
            return Err(source.error(at, name, format!("a load has at most {PAGES_MAX} pages")));
        }
        let seed = seed_for(seed, index as u64, 0x7061_6765);
        Page::random(page.get_ref().random.0, seed)
            .map_err(|problem| source.error(at, "random", problem))
    });
    pages.collect()
}
