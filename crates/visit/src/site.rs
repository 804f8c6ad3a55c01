//! Where a server is, and the way to it.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use content::Cid;
use futures::future::BoxFuture;
use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// What is written as it is in the fragment of a link.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Bytes to and from a server.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Connection for S {}

/// A way to a server that can be taken again and again.
pub trait Door: Send + Sync {
    /// Connects.
    fn open(&self) -> BoxFuture<'_, io::Result<Box<dyn Connection>>>;

    /// What the websocket is asked for, such as `ws://host/socket/websocket?vsn=2.0.0`.
    fn address(&self) -> String;
}

/// The websocket of a server whose settings leave it where it is.
const SOCKET: &str = "/socket/websocket?vsn=2.0.0";

/// A server of the web.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    is_encrypted: bool,
    /// As it stands in links: host, and port where that is not the usual one.
    authority: String,
    host: String,
    port: u16,
}

/// Why a text names no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} names no server: it has the form http://host or https://host:port")]
pub struct SiteError {
    /// What should name one.
    pub text: String,
}

impl FromStr for Site {
    type Err = SiteError;

    fn from_str(text: &str) -> Result<Self, SiteError> {
        let wrong = || SiteError { text: text.to_owned() };
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let is_encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        let is_plain = !authority.as_str().contains('@')
            && matches!(uri.path(), "" | "/")
            && uri.query().is_none();
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if !is_plain || host.is_empty() {
            return Err(wrong());
        }
        let port = authority.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
        Ok(Site { is_encrypted, authority: authority.to_string(), host, port })
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority)
    }
}

impl Site {
    /// The link by which browsers open a page here, with what it is called.
    pub fn link(&self, page: &Cid, name: Option<&str>) -> String {
        let mut link = format!("{self}/p/{page}");
        if let Some(name) = name {
            link.push_str("#filename=");
            link.push_str(&utf8_percent_encode(name, ESCAPED).to_string());
        }
        link
    }

    /// The way to it. Certificates are checked against those that the system trusts.
    pub fn door(&self) -> io::Result<Arc<dyn Door>> {
        let tls = self.is_encrypted.then(|| self.tls()).transpose()?;
        Ok(Arc::new(FrontDoor { site: self.clone(), tls }))
    }

    fn tls(&self) -> io::Result<(TlsConnector, ServerName<'static>)> {
        let wrong = |error: String| io::Error::new(io::ErrorKind::InvalidInput, error);
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        // What is not understood of them is not trusted.
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(wrong("this machine trusts no certificates at all".to_owned()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|error| wrong(format!("{}: {error}", self.host)))?;
        Ok((TlsConnector::from(Arc::new(config)), name))
    }
}

struct FrontDoor {
    site: Site,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Door for FrontDoor {
    fn open(&self) -> BoxFuture<'_, io::Result<Box<dyn Connection>>> {
        Box::pin(async {
            let stream = TcpStream::connect((&*self.site.host, self.site.port)).await?;
            // A want is a small packet that much waits for.
            stream.set_nodelay(true)?;
            Ok(match &self.tls {
                Some((connector, name)) => {
                    Box::new(connector.connect(name.clone(), stream).await?) as Box<dyn Connection>
                }
                None => Box::new(stream),
            })
        })
    }

    fn address(&self) -> String {
        format!("ws://{}{SOCKET}", self.site.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_scheme_and_a_host() {
        let site = |text: &str| text.parse::<Site>().unwrap();
        assert_eq!(site("http://localhost:4000/").to_string(), "http://localhost:4000");
        assert_eq!(site("http://localhost:4000").port, 4000);
        assert_eq!((site("https://example.org").port, site("http://example.org").port), (443, 80));
        let six = site("http://[::1]:4000");
        assert_eq!((&*six.host, &*six.authority), ("::1", "[::1]:4000"));
        for text in [
            "",
            "localhost",
            "localhost:4000",
            "ws://host",
            "http://",
            "http://a@b",
            "http://a/p/x",
            "http://a/?x=1",
            "//host",
        ] {
            assert_eq!(text.parse::<Site>(), Err(SiteError { text: text.to_owned() }), "{text}");
        }
    }

    #[test]
    fn links_are_as_the_browser_makes_them() {
        let site: Site = "https://example.org".parse().unwrap();
        let cid = "bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u".parse().unwrap();
        let link = site.link(&cid, Some("my notes, 日.md"));
        let fragment = "filename=my%20notes%2C%20%E6%97%A5.md";
        assert_eq!(link, format!("https://example.org/p/{cid}#{fragment}"));
        assert_eq!(site.link(&cid, None), format!("https://example.org/p/{cid}"));
    }
}
