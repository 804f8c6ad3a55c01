//! Where the NATS servers are, and how to sign in.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::{ConnectOptions, Event};

/// How to connect to NATS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatsSettings {
    /// URLs such as `nats://user:password@host:4222` or `tls://host:4222`. The client uses another
    /// server when one does not answer.
    pub urls: Vec<String>,
    /// A file with credentials (`.creds`), if the servers need one.
    pub credentials_file: Option<PathBuf>,
    /// PEM files with certificate authorities, besides those of the system.
    pub root_certificates: Option<PathBuf>,
    /// A client certificate and its key, as PEM files.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// The first part of all subjects.
    pub prefix: String,
    /// The key of the cluster, from which its secret is derived. Without one, the first machine
    /// makes the secret and sends it over NATS.
    pub key: Option<String>,
}

/// How long a new connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the connection is tested. A server that does not answer two times is left.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// Messages that a subscription may have unread.
const SUBSCRIPTION_CAPACITY: usize = 8_192;

/// Why there is no connection to NATS.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// A prefix that is no subject.
    #[error(
        "cannot use cluster.prefix {prefix:?}: use letters, digits, - and _, and dots between parts"
    )]
    Prefix {
        /// The prefix.
        prefix: String,
    },
    /// The file with credentials.
    #[error("cannot read the NATS credentials {}: {source}", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// No server accepted the connection.
    #[error("cannot connect to NATS at {urls}: {source}")]
    Connect {
        /// The URLs, without passwords.
        urls: String,
        /// The cause.
        source: async_nats::ConnectError,
    },
    /// The connection ended while it was set up.
    #[error("cannot subscribe at NATS: {0}")]
    Subscribe(#[from] async_nats::SubscribeError),
    /// The thread of the links.
    #[error("cannot run the links to other machines: {0}")]
    Thread(std::io::Error),
    /// The operating system returned no random bytes.
    #[error("the operating system returned no random bytes: {0}")]
    NoRandomness(#[from] getrandom::Error),
}

impl NatsSettings {
    /// Checks what can be checked without a connection.
    pub fn check(&self) -> Result<(), NatsError> {
        let is_part = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        match self.prefix.split('.').all(is_part) {
            true => Ok(()),
            false => Err(NatsError::Prefix { prefix: self.prefix.clone() }),
        }
    }

    /// Opens a connection, which reconnects by itself for ever.
    pub(crate) async fn connect(&self, name: &str) -> Result<async_nats::Client, NatsError> {
        self.check()?;
        let mut options = ConnectOptions::new()
            .name(name)
            .connection_timeout(CONNECT_TIMEOUT)
            .ping_interval(PING_INTERVAL)
            .subscription_capacity(SUBSCRIPTION_CAPACITY)
            .no_echo()
            .max_reconnects(None)
            .event_callback(log);
        if let Some(path) = &self.credentials_file {
            let read = options.credentials_file(path).await;
            options =
                read.map_err(|source| NatsError::Credentials { path: path.clone(), source })?;
        }
        if let Some(path) = &self.root_certificates {
            options = options.add_root_certificates(path.clone());
        }
        if let Some((certificate, key)) = &self.client_certificate {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        let connected = options.connect(self.urls.clone()).await;
        connected.map_err(|source| NatsError::Connect { urls: self.public_urls(), source })
    }

    /// The URLs without user names and passwords.
    fn public_urls(&self) -> String {
        let public = self.urls.iter().map(|url| match (url.find("://"), url.rfind('@')) {
            (Some(scheme), Some(at)) => format!("{}{}", &url[..scheme + 3], &url[at + 1..]),
            (None, Some(at)) => url[at + 1..].to_owned(),
            (_, None) => url.clone(),
        });
        public.collect::<Vec<_>>().join(", ")
    }
}

async fn log(event: Event) {
    match event {
        Event::Connected => tracing::info!("connected to NATS"),
        Event::Disconnected => tracing::warn!("the connection to NATS is lost; connecting again"),
        Event::SlowConsumer(subscription) => {
            tracing::warn!(
                subscription,
                "messages from NATS are dropped: this process is too slow"
            );
        }
        Event::ServerError(error) => tracing::error!(%error, "NATS refused a request"),
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
    fn errors_show_no_passwords() {
        let urls = vec!["nats://ada:secret@one:4222".into(), "token@two".into(), "three".into()];
        let settings = NatsSettings { urls, ..Default::default() };
        assert_eq!(settings.public_urls(), "nats://one:4222, two, three");
    }
}
