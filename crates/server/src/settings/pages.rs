use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The operator's settings for pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PageSettings {
    /// File with the CIDs of blocked pages, one per line, read again on changes; empty for none.
    pub deny_file: PathBuf,
    /// Address for reports: `https:`, `http:` or `mailto:`; empty for none. `{cid}` becomes the CID.
    pub report: String,
    /// Whether `/status` shows everyone how many people and pages are here.
    pub status_page: bool,
    /// How long the server remembers when a page was last available; "0s" turns it off.
    #[serde(with = "humantime_serde")]
    pub last_available_kept: Duration,
}

impl PageSettings {
    /// Whether `report` is empty, or an address that a browser may open.
    pub(crate) fn report_is_address(&self) -> bool {
        let schemes = ["https://", "http://", "mailto:"];
        self.report.is_empty() || schemes.iter().any(|scheme| self.report.starts_with(scheme))
    }
}

/// The operator's listener: metrics, and calls that only the operator may make.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdminSettings {
    /// Addresses of `/metrics` and `/admin`; empty for none. An address that is not of the loopback
    /// interface needs a token.
    pub listen: Vec<SocketAddr>,
    /// Token for `Authorization: Bearer …`. Empty: the calls under `/admin` only read.
    pub token: String,
    /// File in which the history of the operator's page survives a restart. Empty: a file in the state
    /// folder of the service, or none.
    pub history_file: PathBuf,
}

impl Default for AdminSettings {
    fn default() -> Self {
        let listen = vec![SocketAddr::from(([127, 0, 0, 1], 4010))];
        AdminSettings { listen, token: String::new(), history_file: PathBuf::new() }
    }
}

/// The least length of `admin.token`, because a shorter token could be guessed.
pub(crate) const TOKEN_BYTES_MIN: usize = 16;

impl std::fmt::Debug for AdminSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Logs must not show the token.
        let token = if self.token.is_empty() { "none" } else { "set" };
        f.debug_struct("AdminSettings")
            .field("listen", &self.listen)
            .field("token", &token)
            .field("history_file", &self.history_file)
            .finish()
    }
}
