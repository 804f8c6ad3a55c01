//! A server whose connections come from the application that contains it.

#[cfg(feature = "embed")]
mod router;

#[cfg(any(feature = "embed", feature = "testing"))]
use std::io;
#[cfg(feature = "testing")]
use std::net::Ipv4Addr;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
#[cfg(any(feature = "embed", feature = "testing"))]
use std::os::unix::net::UnixStream;

use watchfire_sockets::{Adopter, ClientAddress, HandoffConnection};

use crate::channel_api::Endpoint;
use crate::server::{ProcessRole, RunningServer, Server, StartError};

impl Server {
    /// Starts the event loops in this process, without a listener. The application accepts
    /// connections itself and hands them over: all of them with [`EmbeddedServer::accept`], or those
    /// of one path with `EmbeddedServer::router`, which the feature `embed` adds.
    ///
    /// `server.listen` is ignored. TLS and the PROXY protocol belong to the listener, so their
    /// settings are an error.
    pub fn embed(mut self) -> Result<EmbeddedServer, StartError> {
        let mut settings = self.settings().clone();
        for (setting, is_set) in [
            ("tls", settings.tls.is_on() || !settings.tls.redirect_listen.is_empty()),
            ("server.proxy_protocol", !settings.server.proxy_protocol.is_empty()),
            ("server.processes", settings.server.processes > 1),
            ("cluster.nats", !settings.cluster.nats.is_empty()),
        ] {
            if is_set {
                return Err(StartError::Embedded { setting });
            }
        }
        settings.server.listen.clear();
        let socket_path = settings.socket.mount.clone();
        self.set_settings(settings);
        Ok(EmbeddedServer {
            server: self.start_as(ProcessRole::alone().map_err(StartError::NoRandomness)?)?,
            socket_path,
        })
    }
}

/// A running server without a listener. It stops when it is dropped.
///
/// ```
/// use std::net::TcpListener;
/// use watchfire::{Server, Settings};
///
/// let server = Server::new(Settings::default()).embed().unwrap();
/// let listener = TcpListener::bind("127.0.0.1:0").unwrap();
/// let address = listener.local_addr().unwrap();
/// std::thread::spawn(move || {
///     for connection in listener.incoming().flatten() {
///         server.accept(connection).ok();
///     }
/// });
///
/// use std::io::{Read, Write};
/// let mut client = std::net::TcpStream::connect(address).unwrap();
/// client.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
/// let mut response = String::new();
/// client.read_to_string(&mut response).unwrap();
/// assert!(response.starts_with("HTTP/1.1 200 OK"));
/// ```
pub struct EmbeddedServer {
    server: RunningServer,
    /// The path of sockets, as `socket.mount` sets it.
    #[cfg_attr(not(any(feature = "embed", feature = "testing")), allow(dead_code))]
    socket_path: String,
}

/// The queue of every event loop was full. The connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot hand a connection over: the queue of every event loop is full")]
pub struct Refused;

impl EmbeddedServer {
    /// Hands over a connection from which nothing was read. The event loops serve it to its end,
    /// like one that they accepted: sockets, long polls, and the routes of
    /// [`Server::routes`](crate::Server::routes).
    pub fn accept(&self, connection: TcpStream) -> Result<(), Refused> {
        hand_over(&self.server.adopter(), connection.into(), ClientAddress::OfSocket)
    }

    /// One end of a pair of sockets, whose other end the event loops serve, and the path of sockets.
    #[cfg(feature = "testing")]
    pub(crate) fn open(&self) -> io::Result<(UnixStream, &str)> {
        let from = (Ipv4Addr::LOCALHOST, 0).into();
        Ok((open_pair(&self.server.adopter(), from)?, &self.socket_path))
    }

    /// A handle for broadcasts and pushes from any thread.
    pub fn endpoint(&self) -> &Endpoint {
        self.server.endpoint()
    }

    /// WebSockets and long-poll sessions that are open now.
    pub fn clients(&self) -> u64 {
        self.server.clients()
    }

    /// The addresses on which a feature listens for itself; none if there is no such feature.
    pub fn addresses_of(&self, feature: &str) -> &[SocketAddr] {
        self.server.addresses_of(feature)
    }

    /// Closes every socket with 1012, spread over `server.drain_period`.
    pub async fn drain(self) {
        self.server.drain().await;
    }
}

/// Opens a pair of sockets, and hands one end over as the connection of a client with this address.
#[cfg(any(feature = "embed", feature = "testing"))]
fn open_pair(adopter: &Adopter, from: SocketAddr) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    hand_over(adopter, theirs.into(), ClientAddress::OfPair(from)).map_err(io::Error::other)?;
    Ok(ours)
}

fn hand_over(adopter: &Adopter, fd: OwnedFd, client: ClientAddress) -> Result<(), Refused> {
    let connection = HandoffConnection { fd, bytes: Vec::new(), client, hops: 0, declined: 0 };
    adopter.adopt(connection).map_err(|_| Refused)
}
