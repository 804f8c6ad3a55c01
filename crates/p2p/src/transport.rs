//! The transports: TCP with TLS or Noise and yamux, and QUIC. A private network uses only TCP with
//! its pre-shared key.

mod membership;
mod mux;
mod new_port;
mod tls;

use std::io;
use std::time::Duration;

use futures::future::{BoxFuture, Either};
use futures::io::{BufReader, BufWriter};
use futures::{AsyncRead, AsyncWrite, FutureExt, TryFutureExt};
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::transport::timeout::TransportTimeout;
use libp2p::core::transport::{Boxed, OptionalTransport};
use libp2p::core::upgrade::{
    InboundConnectionUpgrade, OutboundConnectionUpgrade, UpgradeInfo, Version,
};
use libp2p::identity::Keypair;
use libp2p::pnet::{PnetConfig, PreSharedKey};
use libp2p::{PeerId, Transport, dns, noise, quic, tcp};
use tokio::net::TcpStream;

use crate::error::StartError;
use membership::Membership;
use new_port::NewPort;
use tls::Tls;

/// Bytes to read from a socket in one call. TLS would read only 4 KiB.
const READ_BYTES: usize = 64 * 1024;

/// Bytes that are buffered before encryption. Without the buffer, yamux would send the header of
/// each frame in its own packet.
const WRITE_BUFFER_BYTES: usize = mux::FRAME_BYTES_MAX + mux::HEADER_BYTES;

/// Unsent bytes of a socket in the kernel. Urgent messages cannot overtake them.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 64 * 1024;

pub(crate) fn build(
    keypair: &Keypair,
    swarm_key: Option<[u8; 32]>,
    network_key: Option<[u8; 32]>,
    network_key_before: Option<[u8; 32]>,
    dial_timeout: Duration,
) -> Result<Boxed<(PeerId, StreamMuxerBox)>, StartError> {
    let failed = |error: &dyn std::fmt::Display| StartError::Transport(error.to_string());
    let security = Security {
        tls: Tls::new(keypair).map_err(|e| failed(&e))?,
        noise: noise::Config::new(keypair).map_err(|e| failed(&e))?,
        membership: network_key
            .as_ref()
            .map(|key| Membership::new(key, network_key_before.as_ref())),
    };
    let tcp = NewPort(tcp::tokio::Transport::new(tcp::Config::default().nodelay(true)));
    let tcp = tcp.and_then(move |socket, _| async move {
        limit_unsent_bytes(&socket.0)?;
        match swarm_key {
            None => Ok(Either::Left(socket)),
            Some(key) => match PnetConfig::new(PreSharedKey::new(key)).handshake(socket).await {
                Ok(socket) => Ok(Either::Right(socket)),
                Err(error) => Err(io::Error::other(error.to_string())),
            },
        }
    });
    let tcp = tcp.map(|socket, _| BufReader::with_capacity(READ_BYTES, socket));
    let tcp = tcp.upgrade(Version::V1Lazy).authenticate(security).multiplex(mux::Yamux);
    let tcp = tcp.map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));

    // QUIC does not support keys of private networks.
    let quic = match (swarm_key, network_key) {
        (None, None) => {
            OptionalTransport::some(quic::tokio::Transport::new(quic::Config::new(keypair)))
        }
        _ => OptionalTransport::none(),
    };
    let quic = quic.map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));

    let both = tcp.or_transport(quic).map(|one, _| one.into_inner());
    let named = dns::tokio::Transport::system(both).map_err(|e| failed(&e))?;
    Ok(TransportTimeout::new(named, dial_timeout).boxed())
}

/// Keeps unsent data in the queues of this process, where urgent messages go first.
fn limit_unsent_bytes(socket: &TcpStream) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_BYTES)?;
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
    Ok(())
}

/// Prefers TLS to Noise: AES with processor instructions takes a fifth of the time. A network with a
/// key has only TLS, with a proof of the key.
#[derive(Clone)]
struct Security {
    tls: Tls,
    noise: noise::Config,
    membership: Option<Membership>,
}

type Secured<C> = BufWriter<Either<tls::TlsStream<C>, noise::Output<C>>>;

impl UpgradeInfo for Security {
    type Info = &'static str;
    type InfoIter = std::iter::Copied<std::slice::Iter<'static, Self::Info>>;

    fn protocol_info(&self) -> Self::InfoIter {
        match &self.membership {
            None => [TLS, NOISE].iter().copied(),
            Some(membership) => membership.protocols().iter().copied(),
        }
    }
}

impl Security {
    async fn check<C: AsyncRead + AsyncWrite + Unpin>(
        self,
        (peer, mut stream): (PeerId, tls::TlsStream<C>),
        protocol: &str,
    ) -> io::Result<(PeerId, Secured<C>)> {
        if let Some(membership) = &self.membership {
            membership.verify(&mut stream, protocol).await?;
        }
        Ok((peer, BufWriter::with_capacity(WRITE_BUFFER_BYTES, Either::Left(stream))))
    }
}

const TLS: &str = "/tls/1.0.0";
const NOISE: &str = "/noise";

impl<C> InboundConnectionUpgrade<C> for Security
where
    C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Output = (PeerId, Secured<C>);
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<Self::Output, Self::Error>>;

    fn upgrade_inbound(self, socket: C, info: Self::Info) -> Self::Future {
        match info {
            NOISE => self.noise.upgrade_inbound(socket, info).map(encrypted_by_noise).boxed(),
            _ => {
                let accepted = self.tls.clone().accept(socket);
                accepted.and_then(|stream| self.check(stream, info)).boxed()
            }
        }
    }
}

impl<C> OutboundConnectionUpgrade<C> for Security
where
    C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    type Output = (PeerId, Secured<C>);
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<Self::Output, Self::Error>>;

    fn upgrade_outbound(self, socket: C, info: Self::Info) -> Self::Future {
        match info {
            NOISE => self.noise.upgrade_outbound(socket, info).map(encrypted_by_noise).boxed(),
            _ => {
                let connected = self.tls.clone().connect(socket);
                connected.and_then(|stream| self.check(stream, info)).boxed()
            }
        }
    }
}

fn encrypted_by_noise<C: AsyncRead + AsyncWrite + Unpin>(
    result: Result<(PeerId, noise::Output<C>), noise::Error>,
) -> io::Result<(PeerId, Secured<C>)> {
    let (peer, stream) = result.map_err(io::Error::other)?;
    Ok((peer, BufWriter::with_capacity(WRITE_BUFFER_BYTES, Either::Right(stream))))
}
