//! How the server's own page clients connect to it: without a port, TLS or a host name.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream as StdStream;
use std::pin::Pin;

use watchfire::internal::OwnClientKey;
use watchfire_page_client::{Connection, Connector};
use watchfire_sockets::{Adopter, ClientAddress, HandoffConnection};

/// Creates a socket pair and gives one end to the event loops, as if a client had connected.
pub(crate) struct SocketPairConnector {
    pub adopter: Adopter,
    pub websocket_path: String,
    pub key: OwnClientKey,
}

impl Connector for SocketPairConnector {
    fn connect(
        &self,
    ) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn Connection>>> + Send + '_>> {
        Box::pin(async {
            let (ours, theirs) = StdStream::pair()?;
            let from = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let connection = HandoffConnection {
                fd: theirs.into(),
                bytes: Vec::new(),
                client: ClientAddress::OfPair(from),
                hops: 0,
                declined: 0,
            };
            let queue_full =
                |_| io::Error::other("cannot connect to the event loops: their queue is full");
            self.adopter.adopt(connection).map_err(queue_full)?;
            ours.set_nonblocking(true)?;
            Ok(Box::new(tokio::net::UnixStream::from_std(ours)?) as Box<dyn Connection>)
        })
    }

    fn websocket_url(&self) -> String {
        format!("ws://localhost{}?vsn=2.0.0&{}", self.websocket_path, self.key.to_query())
    }
}
