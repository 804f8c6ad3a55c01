//! The programs of nodes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;
use watchfire_report::scenario::SourceText;

use super::values::texts;
use crate::definition::{Build, DefinitionError, Implementation, Peer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeerFile {
    implementation: Option<Implementation>,
    build: Option<BuildFile>,
    #[serde(default)]
    settings: BTreeMap<String, toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BuildFile {
    git: Option<String>,
    path: Option<PathBuf>,
}

pub(super) fn check_peer(
    peer: Spanned<PeerFile>,
    source: &SourceText<'_>,
) -> Result<Peer, DefinitionError> {
    let (at, peer) = (peer.span().start, peer.into_inner());
    let build = match peer.build {
        None => Build::Installed,
        Some(BuildFile { git: Some(reference), path: None }) => Build::Git(reference),
        Some(BuildFile { git: None, path: Some(path) }) => Build::Path(path),
        Some(_) => return Err(source.error(at, "build", "needs either git or path")),
    };
    let is_dashed = |build: &Build| matches!(build, Build::Git(git) if git.starts_with('-'));
    if is_dashed(&build) {
        return Err(source.error(at, "git", "a git reference does not begin with -"));
    }
    Ok(Peer {
        implementation: peer.implementation.unwrap_or(Implementation::Watchfire),
        build,
        settings: texts(peer.settings),
    })
}
