use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use watchfire_settings::section;

section! {
    "pages";
    /// The operator's settings for pages.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct PageSettings {
        /// A file with the CIDs of blocked pages, one on each line, also in a link or path; text
        /// after # is a comment. An entry blocks the content under every form of its CID. A change
        /// applies within two seconds: peers that have the page open are notified and removed from
        /// it. Empty: no blocked pages.
        deny_file: PathBuf = PathBuf::new();
        /// Address for reports, linked from each page: https:, http: or mailto:, such as
        /// `"mailto:abuse@example.org?subject={cid}"`. `{cid}` becomes the page's CID. Empty: no
        /// link.
        report: String = String::new();
        /// Whether `GET /status` shows everyone how many people are here, how many pages are
        /// available, and for how long the server has run. Nothing on that page identifies anyone.
        status_page: bool = false;
        /// How long the server remembers when a page was last available. It tells this to visitors
        /// of a page that is unavailable. Kept in memory, for at most 100,000 pages. `"0s"` turns
        /// it off.
        #[serde(with = "humantime_serde")]
        last_available_kept: Duration = Duration::ZERO;
    }
}

impl PageSettings {
    /// Whether `report` is empty, or an address that a browser may open.
    pub(crate) fn report_is_address(&self) -> bool {
        let schemes = ["https://", "http://", "mailto:"];
        self.report.is_empty() || schemes.iter().any(|scheme| self.report.starts_with(scheme))
    }
}

section! {
    "admin", secrets ["token"];
    /// The operator's listener: metrics, and calls that only the operator may make.
    #[derive(Clone, PartialEq, Serialize, Deserialize)]
    pub struct AdminSettings {
        /// Addresses of the operator's page, of `GET /metrics` and of the calls under /admin; empty
        /// for none. They are never on the addresses of `server.listen`. If the default address is
        /// in use, the server logs a warning and runs without them; any other address must be free.
        /// An address that is not of the loopback interface needs a token, and there every request
        /// must have it.
        listen: Vec<SocketAddr> = vec![SocketAddr::from(([127, 0, 0, 1], 4010))];
        /// The token of the operator (`"Authorization: Bearer <token>"`), of at least 16 bytes.
        /// Better set as `WATCHFIRE_ADMIN_TOKEN`. With a token, every call under /admin needs it.
        /// Empty: the calls only read.
        token: String = String::new();
        /// The file in which the history of the operator's page survives a restart. Empty: the file
        /// operator-history in the folder that systemd names in `STATE_DIRECTORY`; without that,
        /// the history is in memory only.
        history_file: PathBuf = PathBuf::new();
    }
}

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
