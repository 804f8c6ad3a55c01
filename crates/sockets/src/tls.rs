//! TLS, ended in a task of the shard's thread.
//!
//! The task speaks TLS with the client and copies to one end of a pair of UNIX sockets; the shard
//! takes the other end in like any connection. That costs three descriptors, a task and its
//! buffers for each client: convenient for a small server, while a large one has TLS ended in
//! front of it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls_pki_types::pem::{Error as PemError, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use watchfire_types::ShardId;

use crate::counted_connection::CountedConnection;
use crate::counters::SocketCounters;
use crate::http::{Next, Returned, Returns};
use crate::limits::SocketLimits;
use crate::settings::TlsFiles;

/// Buffer for one direction of one client, in bytes.
const COPY_BYTES: usize = 4096;

/// Descriptors that one TLS client costs: its socket and the pair.
pub(crate) const DESCRIPTORS_EACH: usize = 3;

/// An error in the certificate or its key.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file is not PEM.
    #[error("{} is not a PEM file: {reason}", path.display())]
    NotPem {
        /// The file.
        path: PathBuf,
        /// The reader's error.
        reason: String,
    },
    /// The certificate file holds no certificate.
    #[error("{} holds no certificate", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The key file holds no private key.
    #[error("{} holds no private key", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// The key cannot be used, or belongs to another certificate.
    #[error("the certificate {} and the key {} cannot be used: {source}", cert.display(), key.display())]
    Unusable {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why not.
        source: rustls::Error,
    },
}

/// Read the certificate and the key.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let chain = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| match error {
        PemError::NoItemsFound => TlsError::NoKey { path: files.key.clone() },
        error => unreadable(&files.key, error),
    })?;
    let unusable =
        |source| TlsError::Unusable { cert: files.cert.clone(), key: files.key.clone(), source };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(path, error))?;
    match chain.is_empty() {
        true => Err(TlsError::NoCertificate { path: path.to_owned() }),
        false => Ok(chain),
    }
}

fn unreadable(path: &Path, error: PemError) -> TlsError {
    let path = path.to_owned();
    match error {
        PemError::Io(source) => TlsError::Unreadable { path, source },
        error => TlsError::NotPem { path, reason: error.to_string() },
    }
}

/// Ends TLS for the clients of a shard.
#[derive(Clone)]
pub(crate) struct TlsTerminator {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) returns: Rc<Returns>,
    pub(crate) limits: Arc<SocketLimits>,
    pub(crate) counters: Arc<SocketCounters>,
    pub(crate) shard: ShardId,
}

impl TlsTerminator {
    /// Shake hands with a client in a task of this thread, then give the shard a socket on which
    /// the client speaks plainly.
    pub(crate) fn receive(&self, fd: OwnedFd, peer: SocketAddr, place: CountedConnection) {
        let acceptor = self.clone();
        tokio::task::spawn_local(async move {
            let _counted = Counted::new(acceptor.returns.clone());
            match acceptor.shake_hands(fd).await {
                Ok((client, ours, shards)) => {
                    acceptor.returns.push(Returned {
                        fd: shards,
                        bytes: Vec::new(),
                        pair_peer: Some(peer),
                        place,
                        next: Next::First,
                    });
                    copy_both_ways(client, ours, &acceptor.limits).await;
                }
                Err(error) => {
                    acceptor.counters.shard(acceptor.shard).tls_failures.add(1);
                    tracing::debug!(%peer, %error, "a TLS handshake failed");
                }
            }
        });
    }

    async fn shake_hands(
        &self,
        fd: OwnedFd,
    ) -> io::Result<(TlsStream<TcpStream>, UnixStream, OwnedFd)> {
        let client = TcpStream::from_std(fd.into())?;
        let client = timeout(self.limits.head_timeout, self.acceptor.accept(client)).await??;
        let (ours, shards) = std::os::unix::net::UnixStream::pair()?;
        for end in [&ours, &shards] {
            end.set_nonblocking(true)?;
            socket2::SockRef::from(end).set_send_buffer_size(self.limits.send_buffer_bytes)?;
        }
        Ok((client, UnixStream::from_std(ours)?, shards.into()))
    }
}

/// One client in `tls_now`.
struct Counted(Rc<Returns>);

impl Counted {
    fn new(returns: Rc<Returns>) -> Self {
        returns.tls_now.set(returns.tls_now.get() + 1);
        Counted(returns)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.tls_now.set(self.0.tls_now.get() - 1);
        self.0.notify.notify_one();
    }
}

/// Copy until the shard has ended its side and the client, within `close_timeout`, its own.
async fn copy_both_ways(client: TlsStream<TcpStream>, shard: UnixStream, limits: &SocketLimits) {
    let (from_client, to_client) = tokio::io::split(client);
    let (from_shard, to_shard) = shard.into_split();
    // The shard limits what it takes itself; a client that does not read is limited here.
    let mut inward = std::pin::pin!(copy(from_client, to_shard, Duration::MAX));
    let mut outward = std::pin::pin!(copy(from_shard, to_client, limits.slow_timeout));
    tokio::select! {
        () = &mut inward => outward.await,
        () = &mut outward => {
            let _ = timeout(limits.close_timeout, inward).await;
        }
    }
}

/// Copy one direction to its end, or until a write stands still for `stall`.
async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, stall: Duration) {
    let mut buffer = vec![0; COPY_BYTES].into_boxed_slice();
    while let Ok(len @ 1..) = from.read(&mut buffer).await {
        let written = timeout(stall, async {
            to.write_all(&buffer[..len]).await?;
            to.flush().await
        });
        if !matches!(written.await, Ok(Ok(()))) {
            return;
        }
    }
    let _ = timeout(stall, to.shutdown()).await;
}
