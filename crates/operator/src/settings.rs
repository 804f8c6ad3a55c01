//! The section of the settings that the feature reads.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use watchfire::feature::section;

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
        /// The file with a CPU profile of each minute of the last seven days, of 64 MiB. It needs a
        /// program with the feature `profiles`. Empty: none is kept.
        profile_file: PathBuf = PathBuf::new();
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
            .field("profile_file", &self.profile_file)
            .finish()
    }
}
