use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use watchfire_settings::section;

section! {
    "cluster", secrets ["key", "nats"];
    /// The other machines of this server. Without NATS servers, it has one machine.
    #[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ClusterSettings {
        /// The NATS servers through which several machines form one server, such as
        /// `["nats://10.0.0.1:4222", "nats://10.0.0.2:4222"]`; tls:// for TLS. A user and password,
        /// as in `"nats://user:password@10.0.0.1:4222"`, are the same in all; then better set
        /// `WATCHFIRE_CLUSTER_NATS`. Empty: one machine.
        nats: Vec<String> = Vec::new();
        /// A NATS credentials file (.creds); empty for none.
        credentials_file: PathBuf = PathBuf::new();
        /// A PEM file with certificate authorities that replace the system's; empty for none.
        root_certificates: PathBuf = PathBuf::new();
        /// A client certificate for NATS, as a PEM file; empty for none.
        client_certificate: PathBuf = PathBuf::new();
        /// The key of the client certificate, as a PEM file.
        client_key: PathBuf = PathBuf::new();
        /// The first part of all NATS subjects. Two clusters on the same NATS servers need
        /// different ones.
        prefix: String = "watchfire".into();
        /// A key of at least 16 bytes, the same on all machines of the cluster. The secret for the
        /// tokens of sessions and of features is derived from it. Empty: the first machine makes a
        /// secret and sends it to the others over NATS.
        key: String = String::new();
        /// Where JetStream of NATS keeps the messages of topics with a history: "file" or "memory". A change
        /// takes effect for new streams: delete the old ones with `nats stream rm`.
        history_storage: HistoryStorage = HistoryStorage::File;
        /// The NATS servers that keep each message: 1, 3 or 5. With 3, one of three may fail.
        history_replicas: u8 = 1;
        /// The most bytes of the messages of all topics with the same limits, which share a stream. Over
        /// it, NATS drops the oldest messages.
        history_bytes_max: u64 = 1 << 30;
    }
}

/// Where JetStream keeps messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HistoryStorage {
    /// In files. Messages survive a restart of NATS.
    File,
    /// In memory.
    Memory,
}

impl ClusterSettings {
    /// Whether this server may have several machines.
    pub fn is_on(&self) -> bool {
        !self.nats.is_empty()
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
