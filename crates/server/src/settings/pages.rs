use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What the operator of a server of pages wants of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PageSettings {
    /// File of the CIDs that nobody is introduced on, one a line; empty for none. It is read again
    /// when it changes.
    pub deny_file: PathBuf,
    /// Where people report a page: a `https:`, `http:` or `mailto:` address, in which `{cid}` stands
    /// for the page; empty for nowhere.
    pub report: String,
    /// How long the server remembers when a page was last available, such as "1h"; "0s" for not at all.
    #[serde(with = "humantime_serde")]
    pub last_available_kept: Duration,
}

impl PageSettings {
    /// Whether `report` is something that a browser may be given to follow.
    pub(crate) fn report_is_address(&self) -> bool {
        let schemes = ["https://", "http://", "mailto:"];
        self.report.is_empty() || schemes.iter().any(|scheme| self.report.starts_with(scheme))
    }
}

/// Calls that only the operator may make.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminSettings {
    /// What `Authorization: Bearer …` must say under `/admin`; empty: there are no such calls.
    pub token: String,
}

/// A shorter one could be guessed.
pub(crate) const TOKEN_BYTES_MIN: usize = 16;

impl std::fmt::Debug for AdminSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // It ends up in logs.
        let token = if self.token.is_empty() { "none" } else { "set" };
        f.debug_struct("AdminSettings").field("token", &token).finish()
    }
}
