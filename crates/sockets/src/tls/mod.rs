//! TLS termination by a proxy inside the process.
//!
//! A task of the shard's thread does the handshake. Then it copies between the client's TLS stream and
//! one end of a pair of UNIX sockets. The shard handles the other end like any connection.
//!
//! # The reason
//!
//! A TLS session has keys, buffers and records that are read in part. In the slab, each record and
//! each path (reading, lending to hyper, the queue, the sweep, the drain) would exist in two kinds, and
//! a broadcast would test for each client which one it has. A session can also not be handed over:
//! the kernel passes a descriptor to another process, but the session's keys stay in this one. The end
//! of a pair is a plain descriptor. It can be lent, moved and handed over, while the task that knows
//! the keys stays.
//!
//! # Example
//!
//! A TLS client sends a long poll whose session belongs to another process. The head is decrypted
//! here, written into the pair, and parsed by the shard. The shard hands its end of the pair over,
//! with the client's address (`ClientAddress::OfPair`), because the pair itself has none. The other
//! process answers into the pair, and this task encrypts the answer. If this process ends, the
//! connection ends too.
//!
//! # The costs, and the bounds
//!
//! - Three descriptors for each client: with 20,000 open files, 6,624 clients instead of 19,872.
//!   `sockets_max = 0` is derived so (`server.rs`).
//! - A task, two buffers of 4 KiB, the session's own buffers, and one more copy of each byte.
//! - The handshake may take `head_timeout`, and one write to the client `slow_timeout`. The send buffer
//!   of each end of the pair has `send_buffer_bytes`, so the shard notices a client that does not read.
//! - After the shard has closed its end, the client has `close_timeout` to close.
//!
//! This suits a server of some thousands of clients. A large one should terminate TLS in a proxy.

mod certificate;
mod certificates;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use watchfire_types::ShardId;

use crate::counters::{CountedConnection, SocketCounters};
use crate::handoff::ClientAddress;
use crate::http::{Next, Returned, Returns};
use crate::limits::SocketLimits;

pub(crate) use tokio_rustls::TlsAcceptor;

pub use certificate::{Certificate, TlsError, TlsFiles};
pub use certificates::{Certificates, FindChallenge};

use certificates::ACME_PROTOCOL;

/// Buffer for one direction of one client, in bytes.
const COPY_BYTES: usize = 4096;

/// Descriptors per TLS client: its socket and the pair.
pub(crate) const DESCRIPTORS_EACH: usize = 3;

/// An acceptor that presents these certificates.
pub(crate) fn acceptor(certificates: Arc<Certificates>) -> Result<TlsAcceptor, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let answers_challenges = certificates.answers_challenges();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if answers_challenges {
        config.alpn_protocols.push(ACME_PROTOCOL.to_vec());
    }
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Terminates TLS for the clients of a shard.
#[derive(Clone)]
pub(crate) struct TlsTerminator {
    acceptor: TlsAcceptor,
    returns: Rc<Returns>,
    limits: Arc<SocketLimits>,
    counters: Arc<SocketCounters>,
    shard: ShardId,
}

impl TlsTerminator {
    pub(crate) fn new(
        acceptor: TlsAcceptor,
        returns: Rc<Returns>,
        limits: Arc<SocketLimits>,
        counters: Arc<SocketCounters>,
        shard: ShardId,
    ) -> Self {
        TlsTerminator { acceptor, returns, limits, counters, shard }
    }

    /// Does the TLS handshake in a task of this thread, then gives the shard a socket with the
    /// decrypted stream.
    pub(crate) fn receive(&self, fd: OwnedFd, peer: SocketAddr, counted: CountedConnection) {
        let acceptor = self.clone();
        tokio::task::spawn_local(async move {
            let _counted = Counted::new(acceptor.returns.clone());
            match acceptor.handshake(fd).await {
                Ok(None) => tracing::debug!(%peer, "answered the handshake of an ACME server"),
                Ok(Some((client, ours, shards))) => {
                    acceptor.returns.push(Returned {
                        fd: shards,
                        bytes: Vec::new(),
                        client: ClientAddress::OfPair(peer),
                        counted,
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

    /// `None` for the handshake of an ACME server, which sends no request.
    async fn handshake(
        &self,
        fd: OwnedFd,
    ) -> io::Result<Option<(TlsStream<TcpStream>, UnixStream, OwnedFd)>> {
        let client = TcpStream::from_std(fd.into())?;
        let mut client = timeout(self.limits.head_timeout, self.acceptor.accept(client)).await??;
        if client.get_ref().1.alpn_protocol() == Some(ACME_PROTOCOL) {
            // The result does not matter: the server has seen the certificate.
            let _ = timeout(self.limits.close_timeout, client.shutdown()).await;
            return Ok(None);
        }
        let (ours, shards) = std::os::unix::net::UnixStream::pair()?;
        for end in [&ours, &shards] {
            end.set_nonblocking(true)?;
            socket2::SockRef::from(end).set_send_buffer_size(self.limits.send_buffer_bytes)?;
        }
        Ok(Some((client, UnixStream::from_std(ours)?, shards.into())))
    }
}

/// A client that counts in `tls_now`.
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

/// Copies until the shard has closed its side, and the client has closed its own or `close_timeout`
/// has passed.
async fn copy_both_ways(client: TlsStream<TcpStream>, shard: UnixStream, limits: &SocketLimits) {
    let (from_client, to_client) = tokio::io::split(client);
    let (from_shard, to_shard) = shard.into_split();
    // The shard has its own limits on reading; a client that does not read is limited here.
    let mut inward = std::pin::pin!(copy(from_client, to_shard, Duration::MAX));
    let mut outward = std::pin::pin!(copy(from_shard, to_client, limits.slow_timeout));
    tokio::select! {
        () = &mut inward => outward.await,
        () = &mut outward => {
            let _ = timeout(limits.close_timeout, inward).await;
        }
    }
}

/// Copies one direction to its end, or until a write is pending for `stall`.
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
