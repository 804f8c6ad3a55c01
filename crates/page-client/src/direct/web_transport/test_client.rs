//! A client of the same library, for tests.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::timeout;
use wtransport::tls::{Sha256Digest, Sha256DigestFmt};
use wtransport::{ClientConfig, Connection, Endpoint, quinn};

pub(in crate::direct) const WAIT: Duration = Duration::from_secs(20);

/// Dials a listener at the port of its first address.
pub(in crate::direct) async fn dial(
    addresses: &[String],
    certificate: &str,
    path: &str,
) -> Result<Connection, String> {
    let endpoint = Endpoint::client(config(certificate)?).map_err(|error| error.to_string())?;
    let connected = endpoint.connect(format!("https://{}/{path}", loopback(addresses)));
    timeout(WAIT, connected).await.map_err(|_| "timeout")?.map_err(|error| error.to_string())
}

/// Connects, and asks for no session.
pub(super) async fn connect(
    addresses: &[String],
    certificate: &str,
) -> Result<quinn::Connection, String> {
    let connecting = begin(loopback(addresses), certificate)?;
    timeout(WAIT, connecting).await.map_err(|_| "timeout")?.map_err(|error| error.to_string())
}

/// Returns the first datagram of a new connection.
pub(super) async fn first_datagram(certificate: &str) -> Vec<u8> {
    let listener = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    let _connecting = begin(address, certificate).expect("a client");
    let mut datagram = vec![0; 2048];
    let len = listener.recv(&mut datagram).await.expect("the first datagram");
    datagram.truncate(len);
    datagram
}

fn begin(to: SocketAddr, certificate: &str) -> Result<quinn::Connecting, String> {
    let config = config(certificate)?.quic_config().clone();
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let endpoint = quinn::Endpoint::client(local).map_err(|error| error.to_string())?;
    let connecting = endpoint.connect_with(config, to, "watchfire.invalid");
    connecting.map_err(|error| error.to_string())
}

fn config(certificate: &str) -> Result<ClientConfig, String> {
    let digits: Vec<_> =
        certificate.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair)).collect();
    let hash = Sha256Digest::from_str_fmt(digits.join(":"), Sha256DigestFmt::DottedHex);
    let hash = hash.map_err(|error| format!("{error:?}"))?;
    Ok(ClientConfig::builder().with_bind_default().with_server_certificate_hashes([hash]).build())
}

pub(super) fn loopback(addresses: &[String]) -> SocketAddr {
    let port = addresses[0].rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    SocketAddr::from(([127, 0, 0, 1], port.expect("an address has a port")))
}
