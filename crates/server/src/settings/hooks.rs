use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The backend that the server asks about clients, joins and messages, over HTTP. Without a URL, there is
/// none.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HookSettings {
    /// URL to which the server sends its requests, with `https:` or `http:`; empty for none.
    pub url: String,
    /// Secret that signs the requests, at least 32 bytes. Required with a URL.
    pub secret: String,
    /// File with that secret; empty for none. A line break at its end is ignored.
    pub secret_file: PathBuf,
    /// Whether the server asks about each client that connects. Joins and messages are asked about
    /// for each rule.
    pub connect: bool,
    /// The longest time until an answer, from the client's message or request on.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// Requests of one process that run at once.
    pub requests_max: u32,
    /// Joins and messages of one process that wait for an answer; as many messages behind those; as
    /// many clients that connect; and as many notices.
    pub waiting_max: u32,
    /// Largest payload or parameters of a client in a request, and largest answer, in bytes.
    pub body_bytes_max: u32,
    /// Failures in a row after which a process sends no requests for `retry_after`.
    pub failures_max: u32,
    /// How long a process sends no requests after `failures_max` failures. Then it sends one.
    #[serde(with = "humantime_serde")]
    pub retry_after: Duration,
    /// The decision when the backend cannot answer.
    pub on_failure: OnFailure,
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

impl Default for HookSettings {
    fn default() -> Self {
        HookSettings {
            url: String::new(),
            secret: String::new(),
            secret_file: PathBuf::new(),
            connect: false,
            timeout: Duration::from_secs(3),
            requests_max: 64,
            waiting_max: 1_000,
            body_bytes_max: 64 << 10,
            failures_max: 5,
            retry_after: Duration::from_secs(5),
            on_failure: OnFailure::Deny,
        }
    }
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
