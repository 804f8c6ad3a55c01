use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The other machines of this server. Without NATS servers, it has one machine.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterSettings {
    /// URLs of the NATS servers, such as `nats://user:password@host:4222` or `tls://host:4222`.
    pub nats: Vec<String>,
    /// A NATS credentials file; empty for none.
    pub credentials_file: PathBuf,
    /// A PEM file with certificate authorities instead of those of the system; empty for none.
    pub root_certificates: PathBuf,
    /// A client certificate for NATS, as a PEM file, and its key; empty for none.
    pub client_certificate: PathBuf,
    /// The key of the client certificate.
    pub client_key: PathBuf,
    /// The first part of all NATS subjects. Each cluster needs another one.
    pub prefix: String,
    /// The same on all machines of the cluster. The secret of the cluster is derived from it.
    pub key: String,
}

impl ClusterSettings {
    /// Whether this server may have several machines.
    pub(crate) fn is_on(&self) -> bool {
        !self.nats.is_empty()
    }
}

impl Default for ClusterSettings {
    fn default() -> Self {
        ClusterSettings {
            nats: Vec::new(),
            credentials_file: PathBuf::new(),
            root_certificates: PathBuf::new(),
            client_certificate: PathBuf::new(),
            client_key: PathBuf::new(),
            prefix: "watchfire".into(),
            key: String::new(),
        }
    }
}

/// URLs may contain passwords, so they are not shown.
impl std::fmt::Debug for ClusterSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterSettings")
            .field("nats", &self.nats.len())
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
