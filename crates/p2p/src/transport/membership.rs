//! Proves to a peer that this host has the key of a private network, on a connection that is encrypted
//! already.
//!
//! Each side sends a code of 32 bytes: HMAC-SHA-256 with the key over a secret of this TLS session and
//! the side's role. So a code is of no use on another connection, and tells nothing about the key. In
//! contrast to a swarm key, nothing is encrypted twice.

use std::io;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::tls::TlsStream;

const LABEL: &[u8] = b"EXPORTER-watchfire-network-membership";
const SECRET_BYTES: usize = 32;
const CODE_BYTES: usize = 32;

/// The key of a private network.
#[derive(Clone)]
pub(super) struct Membership(hmac::Key);

impl Membership {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Membership(hmac::Key::new(HMAC_SHA256, key))
    }

    /// Exchanges the codes. Fails if the peer has another key.
    pub(super) async fn verify<C: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut TlsStream<C>,
    ) -> io::Result<()> {
        let (own_role, peer_role) = match stream {
            TlsStream::Client(_) => (b"client", b"server"),
            TlsStream::Server(_) => (b"server", b"client"),
        };
        let secret = secret_of(stream)?;
        let code = hmac::sign(&self.0, &[&secret[..], own_role].concat());
        stream.write_all(code.as_ref()).await?;
        stream.flush().await?;
        let mut received = [0; CODE_BYTES];
        stream.read_exact(&mut received).await?;
        hmac::verify(&self.0, &[&secret[..], peer_role].concat(), &received)
            .map_err(|_| io::Error::other("the peer has another network key"))
    }
}

fn secret_of<C>(stream: &TlsStream<C>) -> io::Result<[u8; SECRET_BYTES]> {
    let secret = [0; SECRET_BYTES];
    let exported = match stream {
        TlsStream::Client(stream) => stream.get_ref().1.export_keying_material(secret, LABEL, None),
        TlsStream::Server(stream) => stream.get_ref().1.export_keying_material(secret, LABEL, None),
    };
    exported.map_err(io::Error::other)
}
