//! The address of a server, and connections to it.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use watchfire_content::Cid;

/// The characters that are escaped in the fragment of a link.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A byte stream to a server.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Connection for S {}

/// Connects to a server, as often as needed.
pub trait Connector: Send + Sync {
    fn connect(&self) -> BoxFuture<'_, io::Result<Box<dyn Connection>>>;

    /// Returns the URL of the WebSocket handshake, such as
    /// `ws://host/socket/websocket?vsn=2.0.0`.
    fn websocket_url(&self) -> String;
}

/// Ends of names for machines of a local network, or for this machine.
const NEAR_NAMES: [&str; 4] = [".localhost", ".local", ".internal", ".home.arpa"];

const SOCKET_PATH: &str = "/socket/websocket?vsn=2.0.0";

/// The URL of a Watchfire server: a scheme and a host. Without a scheme, it is `http` for a server on this machine or in a
/// private network, and `https` for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUrl {
    is_encrypted: bool,
    /// The host, and the port unless it is the default port.
    authority: String,
    host: String,
    port: u16,
}

/// A text is not a valid server URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a server URL: use the form https://host or http://host:port")]
pub struct ServerUrlError {
    pub text: String,
}

impl FromStr for ServerUrl {
    type Err = ServerUrlError;

    fn from_str(text: &str) -> Result<Self, ServerUrlError> {
        let invalid = || ServerUrlError { text: text.to_owned() };
        let uri: Uri = text.parse().map_err(|_| invalid())?;
        let authority = uri.authority().ok_or_else(invalid)?;
        let is_encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            None => !is_near(authority.host()),
            Some(_) => return Err(invalid()),
        };
        let is_plain = !authority.as_str().contains('@')
            && matches!(uri.path(), "" | "/")
            && uri.query().is_none();
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if !is_plain || host.is_empty() {
            return Err(invalid());
        }
        // A port that is none must not become the default one: that is another server.
        let has_port = !matches!(after_host(authority.as_str()), "" | ":");
        if has_port && authority.port_u16().is_none_or(|port| port == 0) {
            return Err(invalid());
        }
        let port = authority.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        Ok(ServerUrl { is_encrypted, authority: authority.to_string(), host, port })
    }
}

/// Whether a server of this host is on this machine or in a private network, where it has no certificate.
fn is_near(host: &str) -> bool {
    match host.trim_start_matches('[').trim_end_matches(']').parse() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_private(),
        Ok(IpAddr::V6(address)) => address.is_loopback() || address.is_unique_local(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// The end of an authority, after its host: empty, or a colon and a port.
fn after_host(authority: &str) -> &str {
    let host_end = authority.rfind(']').map_or(0, |end| end + 1);
    authority[host_end..].find(':').map_or("", |colon| &authority[host_end + colon..])
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

impl ServerUrl {
    /// Returns the link that opens a page in a browser. `name` is the file name that it shows.
    pub fn link(&self, page: &Cid, name: Option<&str>) -> String {
        let mut link = format!("{self}/p/{page}");
        if let Some(name) = name {
            link.push_str("#filename=");
            link.push_str(&utf8_percent_encode(name, ESCAPED).to_string());
        }
        link
    }

    /// Returns the host, and the port unless it is the default port, as in a `Host` header.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Whether the server can be on the internet: its host is no address or name of this machine or of a
    /// local network.
    pub fn is_public(&self) -> bool {
        match self.host.parse() {
            Ok(IpAddr::V4(address)) => {
                let [a, b, ..] = address.octets();
                let is_shared = a == 100 && b >> 6 == 1;
                let is_near =
                    address.is_loopback() || address.is_private() || address.is_link_local();
                a != 0 && a < 224 && !is_shared && !is_near
            }
            // 2000::/3; others contain an IPv4 address, or are not of the internet.
            Ok(IpAddr::V6(address)) => address.segments()[0] >> 13 == 1,
            Err(_) => {
                let name = self.host.to_ascii_lowercase();
                let name = name.trim_end_matches('.');
                let last = name.rsplit('.').next().unwrap_or_default();
                // Systems read `127.1` as an address.
                let is_number = last.starts_with(|c: char| c.is_ascii_digit());
                name.contains('.')
                    && !is_number
                    && !NEAR_NAMES.iter().any(|end| name.ends_with(end))
            }
        }
    }

    /// Whether a client of this server may follow it to `other`. Only an encrypted connection takes the place
    /// of an encrypted one. A server on the internet must not lead clients to machines of their own network.
    pub(crate) fn may_name(&self, other: &ServerUrl) -> bool {
        other != self
            && (other.is_encrypted || !self.is_encrypted)
            && (other.is_public() || !self.is_public())
    }

    /// Returns a connector. It verifies certificates with the trust store of the system.
    pub fn connector(&self) -> io::Result<Arc<dyn Connector>> {
        let tls = self.is_encrypted.then(|| self.tls()).transpose()?;
        Ok(Arc::new(TcpConnector { server: self.clone(), tls }))
    }

    fn tls(&self) -> io::Result<(TlsConnector, ServerName<'static>)> {
        let invalid = |error: String| io::Error::new(io::ErrorKind::InvalidInput, error);
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        // Certificates that cannot be parsed are not trusted.
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(invalid(
                "cannot verify certificates: the trust store of this machine is empty".to_owned(),
            ));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|error| invalid(format!("{}: {error}", self.host)))?;
        Ok((TlsConnector::from(Arc::new(config)), name))
    }
}

struct TcpConnector {
    server: ServerUrl,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Connector for TcpConnector {
    fn connect(&self) -> BoxFuture<'_, io::Result<Box<dyn Connection>>> {
        Box::pin(async {
            let stream = TcpStream::connect((&*self.server.host, self.server.port)).await?;
            // A want is a small packet, and blocks wait for it.
            stream.set_nodelay(true)?;
            Ok(match &self.tls {
                Some((connector, name)) => {
                    Box::new(connector.connect(name.clone(), stream).await?) as Box<dyn Connection>
                }
                None => Box::new(stream),
            })
        })
    }

    fn websocket_url(&self) -> String {
        format!("ws://{}{SOCKET_PATH}", self.server.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_url_is_a_scheme_and_a_host() {
        let server = |text: &str| text.parse::<ServerUrl>().unwrap();
        assert_eq!(server("http://localhost:4000/").to_string(), "http://localhost:4000");
        assert_eq!(server("http://localhost:4000").port, 4000);
        assert_eq!(
            (server("https://example.org").port, server("http://example.org").port),
            (443, 80)
        );
        for (text, whole) in [
            ("localhost:4000", "http://localhost:4000"),
            ("192.168.1.7:4000", "http://192.168.1.7:4000"),
            ("[::1]:4000", "http://[::1]:4000"),
            ("example.org", "https://example.org"),
            ("93.184.216.34:4000", "https://93.184.216.34:4000"),
        ] {
            assert_eq!(server(text).to_string(), whole);
        }
        let six = server("http://[::1]:4000");
        assert_eq!((&*six.host, &*six.authority), ("::1", "[::1]:4000"));
        for text in [
            "",
            "ws://host",
            "host/p/x",
            "http://",
            "http://a@b",
            "http://a/p/x",
            "http://a/?x=1",
            "http://a:65536",
            "http://a:99999/",
            "http://[::1]:99999",
            "http://a:0",
            "//host",
        ] {
            assert_eq!(
                text.parse::<ServerUrl>(),
                Err(ServerUrlError { text: text.to_owned() }),
                "{text}"
            );
        }
    }

    #[test]
    fn a_server_names_no_less_safe_server_and_one_on_the_internet_names_none_of_a_local_network() {
        let server = |text: &str| text.parse::<ServerUrl>().unwrap();
        let homes = ["https://a.example", "http://a.example", "http://localhost:4000"].map(server);
        for (other, expected) in [
            ("https://b.example", [true, true, true]),
            ("https://93.184.216.34", [true, true, true]),
            ("http://b.example", [false, true, true]),
            ("https://a.example", [false, true, true]),
            ("http://a.example", [false, false, true]),
            ("http://127.0.0.1:6379", [false, false, true]),
            ("http://[::1]:4000", [false, false, true]),
            ("http://localhost:4100", [false, false, true]),
            ("https://192.168.0.1", [false, false, true]),
            ("https://127.1", [false, false, true]),
            ("https://Router.Local.", [false, false, true]),
            ("https://intranet", [false, false, true]),
        ] {
            let may = homes.each_ref().map(|home| home.may_name(&server(other)));
            assert_eq!(may, expected, "{other}");
        }
    }

    #[test]
    fn links_have_the_form_that_the_browser_creates() {
        let server: ServerUrl = "https://example.org".parse().unwrap();
        let cid = "bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u".parse().unwrap();
        let link = server.link(&cid, Some("my notes, 日.md"));
        let fragment = "filename=my%20notes%2C%20%E6%97%A5.md";
        assert_eq!(link, format!("https://example.org/p/{cid}#{fragment}"));
        assert_eq!(server.link(&cid, None), format!("https://example.org/p/{cid}"));
    }
}
