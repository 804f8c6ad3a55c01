//! Where the NATS servers are, and how to sign in.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{ConnectOptions, Event, ServerAddr};
use percent_encoding::percent_decode_str;

use crate::nats::refusals::Refusals;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatsSettings {
    /// URLs such as `nats://user:password@host:4222`, `nats://token@host` or `tls://host:4222`. The
    /// client uses another server when one does not answer.
    pub urls: Vec<String>,
    /// A file with credentials (`.creds`), if the servers need one.
    pub credentials_file: Option<PathBuf>,
    /// A PEM file with certificate authorities, instead of the authorities of the system.
    pub root_certificates: Option<PathBuf>,
    /// A client certificate and its key, as PEM files.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// The first part of all subjects.
    pub prefix: String,
    /// The key of the cluster, from which its secret is derived. Without one, the first machine
    /// makes the secret and sends it over NATS.
    pub key: Option<String>,
}

/// How long a new connection may take. A server that hangs keeps the client this long from the next one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the connection is tested. A server that does not answer two times is left.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// The longest pause between two attempts to connect again. It is much shorter than the silence after which the
/// other machines count this one as gone.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(250);
/// The smallest `max_payload` of a NATS server with which machines are linked.
const PAYLOAD_BYTES_MIN: usize = 1_024;
/// Messages that a subscription may have unread.
const SUBSCRIPTION_CAPACITY: usize = 8_192;

/// Why there is no connection to NATS.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    #[error(
        "cannot use cluster.prefix {prefix:?}: use letters, digits, - and _, and dots between parts"
    )]
    Prefix { prefix: String },
    #[error("cannot use cluster.nats {url:?}: {reason}; write one such as nats://10.0.0.1:4222")]
    Url {
        /// The URL, without its password.
        url: String,
        reason: String,
    },
    #[error("cannot read {} for NATS: {cause}", path.display())]
    File { path: PathBuf, cause: std::io::Error },
    #[error("cannot use cluster.nats: all URLs must have the same user and password, or token")]
    Users,
    #[error("cannot read the NATS credentials {}: {cause}", path.display())]
    Credentials { path: PathBuf, cause: std::io::Error },
    #[error("cannot connect to NATS at {urls}: {cause}")]
    Connect {
        /// The URLs, without passwords.
        urls: String,
        cause: async_nats::ConnectError,
    },
    #[error(
        "cannot use NATS at {urls}: its messages have at most {bytes} bytes; set max_payload of the NATS server to \
         {PAYLOAD_BYTES_MIN} or more"
    )]
    SmallPayload {
        /// The URLs, without passwords.
        urls: String,
        bytes: usize,
    },
    #[error(
        "cannot join the cluster: NATS answers {answer:?}; let the user publish and subscribe to {prefix}.>"
    )]
    Refused { answer: String, prefix: String },
    /// The connection ended while it was set up.
    #[error("cannot subscribe at NATS: {0}")]
    Subscribe(async_nats::SubscribeError),
    #[error("cannot run the links to other machines: {0}")]
    Thread(std::io::Error),
    #[error("the operating system returned no random bytes: {0}")]
    NoRandomness(getrandom::Error),
}

impl From<getrandom::Error> for NatsError {
    fn from(cause: getrandom::Error) -> Self {
        NatsError::NoRandomness(cause)
    }
}

impl From<async_nats::SubscribeError> for NatsError {
    fn from(cause: async_nats::SubscribeError) -> Self {
        NatsError::Subscribe(cause)
    }
}

impl NatsSettings {
    /// Checks what can be checked without a connection, also the files that the settings name.
    pub fn check(&self) -> Result<(), NatsError> {
        let is_part = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if !self.prefix.split('.').all(is_part) {
            return Err(NatsError::Prefix { prefix: self.prefix.clone() });
        }
        self.user()?;
        self.public_urls().into_iter().try_for_each(check_url)?;
        self.check_files()
    }

    fn check_files(&self) -> Result<(), NatsError> {
        if let Some(path) = &self.credentials_file {
            std::fs::read(path)
                .map_err(|cause| NatsError::Credentials { path: path.clone(), cause })?;
        }
        let client = self.client_certificate.iter().flat_map(|(cert, key)| [cert, key]);
        self.root_certificates.iter().chain(client).try_for_each(|path| {
            let read = std::fs::read(path).map(drop);
            read.map_err(|cause| NatsError::File { path: path.clone(), cause })
        })
    }

    /// The user, or the token, that the URLs name. All of them name the same, because the client has
    /// one for all servers, and reads none from the URLs.
    fn user(&self) -> Result<Option<User>, NatsError> {
        let mut users = self.urls.iter().map(|url| split_url(url).1);
        let first = users.next().flatten();
        if users.any(|user| user != first) {
            return Err(NatsError::Users);
        }
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        Ok(first.map(|user| match user.split_once(':') {
            Some((name, password)) => User::Named(decode(name), decode(password)),
            None => User::Token(decode(user)),
        }))
    }

    /// Opens a connection, which reconnects by itself for ever, and counts what the server refuses.
    pub(crate) async fn connect(
        &self,
        name: &str,
        refusals: &Arc<Refusals>,
    ) -> Result<async_nats::Client, NatsError> {
        self.connect_observed(name, refusals, |_| {}).await
    }

    /// The same, with a function that learns what happens to the connection.
    pub(crate) async fn connect_observed(
        &self,
        name: &str,
        refusals: &Arc<Refusals>,
        observe: impl Fn(&Event) + Send + Sync + 'static,
    ) -> Result<async_nats::Client, NatsError> {
        self.check()?;
        // The client uses the provider of the process. It is set already if another connection was first.
        rustls::crypto::ring::default_provider().install_default().ok();
        let options = match self.user()? {
            Some(User::Named(name, password)) => {
                ConnectOptions::with_user_and_password(name, password)
            }
            Some(User::Token(token)) => ConnectOptions::with_token(token),
            None => ConnectOptions::new(),
        };
        let refusals = refusals.clone();
        let mut options = options
            .name(name)
            .connection_timeout(CONNECT_TIMEOUT)
            .ping_interval(PING_INTERVAL)
            .subscription_capacity(SUBSCRIPTION_CAPACITY)
            .no_echo()
            .max_reconnects(None)
            .reconnect_delay_callback(reconnect_pause)
            .event_callback(move |event| {
                observe(&event);
                note(&refusals, &event);
                std::future::ready(())
            });
        if let Some(path) = &self.credentials_file {
            let read = options.credentials_file(path).await;
            options = read.map_err(|cause| NatsError::Credentials { path: path.clone(), cause })?;
        }
        if let Some(path) = &self.root_certificates {
            options = options.add_root_certificates(path.clone());
        }
        if let Some((certificate, key)) = &self.client_certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        let urls = self.public_urls();
        let connected = options.connect(urls.clone()).await;
        let client =
            connected.map_err(|cause| NatsError::Connect { urls: urls.join(", "), cause })?;
        match client.max_payload() {
            bytes if bytes < PAYLOAD_BYTES_MIN => {
                Err(NatsError::SmallPayload { urls: urls.join(", "), bytes })
            }
            _ => Ok(client),
        }
    }

    /// The URLs without users and passwords.
    fn public_urls(&self) -> Vec<String> {
        self.urls.iter().map(|url| split_url(url).0).collect()
    }
}

/// The user that signs in at NATS.
#[derive(Debug, PartialEq, Eq)]
enum User {
    Named(String, String),
    Token(String),
}

/// Checks a URL without a user.
fn check_url(url: String) -> Result<(), NatsError> {
    let reason = match url.parse::<ServerAddr>() {
        Ok(address) if !address.host().is_empty() => return Ok(()),
        Ok(_) => "it has no host".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(NatsError::Url { url, reason })
}

/// A URL without its user, and the user with the password, percent-encoded.
fn split_url(url: &str) -> (String, Option<&str>) {
    let (scheme, rest) = url.split_at(url.find("://").map_or(0, |at| at + 3));
    match rest.rsplit_once('@') {
        Some((user, host)) => (format!("{scheme}{host}"), Some(user)),
        None => (url.to_owned(), None),
    }
}

/// The pause before an attempt to connect again.
fn reconnect_pause(attempt: usize) -> Duration {
    let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX).min(8);
    let pause = Duration::from_millis((1 << doublings) - 1);
    pause.min(RECONNECT_PAUSE_MAX)
}

/// Logs an event, and counts a message or a subscription that the server does not accept.
fn note(refusals: &Refusals, event: &Event) {
    match event {
        Event::Connected => tracing::info!("connected to NATS"),
        Event::Disconnected => tracing::warn!("the connection to NATS is lost; connecting again"),
        Event::SlowConsumer(subscription) => {
            tracing::warn!(
                subscription,
                "messages from NATS are dropped: this process is too slow"
            );
        }
        // Permissions or a limit of the server. Of other errors, the loss of the connection tells.
        Event::ServerError(error) if error.to_string().to_lowercase().contains("violation") => {
            refusals.note(error);
        }
        Event::ServerError(error) => tracing::error!(%error, "NATS reports an error"),
        event => tracing::debug!(%event, "NATS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_subject_without_wildcards() {
        let check =
            |prefix: &str| NatsSettings { prefix: prefix.into(), ..Default::default() }.check();
        for prefix in ["watchfire", "a.b-c_9"] {
            assert!(check(prefix).is_ok(), "{prefix}");
        }
        for prefix in ["", "a..b", "a.*", ">", "a b", "a.", "ü"] {
            assert!(check(prefix).is_err(), "{prefix}");
        }
    }

    #[test]
    fn what_is_no_server_or_no_file_is_refused_before_a_connection() {
        for url in ["nats://10.0.0.1:4222", "tls://a.example", "a.example:4222", "nats://[::1]"] {
            assert!(with_urls(&[url]).check().is_ok(), "{url}");
        }
        for url in ["", "http://a.example", "nats://a.example:99999", "nats://", "nats://ada:a@"] {
            assert!(matches!(with_urls(&[url]).check(), Err(NatsError::Url { .. })), "{url}");
        }
        let missing = || PathBuf::from("/no/such/file");
        let with_file = NatsSettings { credentials_file: Some(missing()), ..with_urls(&["a"]) };
        assert!(matches!(with_file.check(), Err(NatsError::Credentials { .. })));
        let with_file = NatsSettings { root_certificates: Some(missing()), ..with_urls(&["a"]) };
        assert!(matches!(with_file.check(), Err(NatsError::File { .. })));
        let client_certificate = Some((missing(), missing()));
        let with_file = NatsSettings { client_certificate, ..with_urls(&["a"]) };
        assert!(matches!(with_file.check(), Err(NatsError::File { .. })));
    }

    fn with_urls(urls: &[&str]) -> NatsSettings {
        let urls = urls.iter().map(|url| (*url).to_owned()).collect();
        NatsSettings { urls, prefix: "watchfire".into(), ..Default::default() }
    }

    #[test]
    fn errors_show_no_passwords() {
        let settings = with_urls(&["nats://ada:secret@one:4222", "token@two", "three"]);
        assert_eq!(settings.public_urls(), ["nats://one:4222", "two", "three"]);
    }

    #[test]
    fn urls_name_one_user() {
        let user = |urls: &[&str]| with_urls(urls).user().ok().flatten();
        let ada = User::Named("ada".into(), "a@b:c".into());
        assert_eq!(user(&["nats://ada:a%40b:c@one", "tls://ada:a%40b:c@two:4222"]), Some(ada));
        assert_eq!(user(&["nats://s3cr3t@one"]), Some(User::Token("s3cr3t".into())));
        assert_eq!(user(&["nats://one", "two"]), None);
        for urls in [&["nats://ada:a@one", "nats://ada:b@two"], &["nats://ada:a@one", "two"]] {
            assert!(matches!(with_urls(urls).check(), Err(NatsError::Users)), "{urls:?}");
        }
    }
}
