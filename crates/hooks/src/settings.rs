use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchfire_settings::section;

section! {
    "hooks", secrets ["secret"], never_zero [timeout];
    /// The backend that the server asks about clients, joins and messages, over HTTP. Without a URL, there is
    /// none.
    #[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct HookSettings {
        /// The URL of your backend, such as `"https://example.org/watchfire-hooks"`. For rules with
        /// hooks, the server asks it about joins and messages with a POST, after the rule has
        /// permitted them.
        url: String = String::new();
        /// The secret that signs these requests, of at least 32 bytes. Required with a URL, here or
        /// in a file. Better set as `WATCHFIRE_HOOKS_SECRET`.
        secret: String = String::new();
        /// A file with that secret; empty for none. A line break at its end is ignored.
        secret_file: PathBuf = PathBuf::new();
        /// Whether the server also asks it about each client that connects. Its answer may give the
        /// client a user and rights, as a token does.
        connect: bool = false;
        /// The longest time until an answer, from the client's message or request on.
        #[serde(with = "humantime_serde")]
        timeout: Duration = Duration::from_secs(3);
        /// Requests of one process that run at the same time. Further ones wait in a queue.
        requests_max: u32 = 64;
        /// The bound of each of four queues of a process: joins and messages that wait for an
        /// answer, messages behind them, clients that connect, and notices. When more wait,
        /// clients, joins and messages are decided as after a failure, and notices are dropped.
        #[serde(skip)]
        #[doc(hidden)]
        waiting_max: u32 = 1_000;
        /// Largest payload or parameters of a client in a request, and largest answer, in bytes. A
        /// larger payload is refused.
        body_bytes_max: u32 = 64 << 10;
        /// Failures in a row after which a process sends no requests for `retry_after`. Timeouts,
        /// invalid answers and other statuses than 200 are failures.
        failures_max: u32 = 5;
        /// How long a process sends no requests after `failures_max` failures. Then it sends one,
        /// whose outcome decides.
        #[serde(with = "humantime_serde")]
        retry_after: Duration = Duration::from_secs(5);
        /// The decision when the backend cannot answer: `"deny"` (the reason is
        /// backend_unavailable, or status 503) or `"allow"`.
        on_failure: OnFailure = OnFailure::Deny;
    }
}

/// The decision about a client, a join or a message when the backend cannot answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// The client gets an error with the reason `backend_unavailable`; when it connects, status 503.
    #[default]
    Deny,
    /// As if there were no hook.
    Allow,
}

/// A question or notice to the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hook {
    /// A question for each client that connects. It is not of a rule: see [`HookSettings::connect`].
    Connect,
    /// A question for each join that the rule permits.
    Join,
    /// A question for each message of a client that the rule permits.
    Publish,
    /// A notice for each channel that ends.
    Leave,
}

impl HookSettings {
    /// Whether there is a backend.
    pub fn is_on(&self) -> bool {
        !self.url.is_empty()
    }
}

impl std::fmt::Debug for HookSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Logs must not show the secret.
        f.debug_struct("HookSettings")
            .field("url", &self.url)
            .field("secret_file", &self.secret_file)
            .field("timeout", &self.timeout)
            .field("on_failure", &self.on_failure)
            .finish_non_exhaustive()
    }
}
