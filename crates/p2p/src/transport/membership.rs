//! Proves to a peer that this host has the key of a private network, on a connection that is
//! encrypted already.
//!
//! Without it, everyone who reaches the port of a host can take blocks from it: TLS proves which
//! peer id is at the other end, and anyone can generate one. The pre-shared key of libp2p keeps
//! strangers out, but it encrypts every byte once more, below TLS. That took 55 % of a mirror's CPU
//! time. The proof here costs 32 bytes and one HMAC in each direction for a connection, and nothing
//! for a block.
//!
//! Each side sends a code: HMAC-SHA-256 with the network's key over a secret of this TLS session
//! and the side's role. Each part prevents one attack:
//!
//! - **The HMAC.** The key itself is never sent. A member that is deceived into connecting to a
//!   stranger tells it nothing: without the key, the code looks like random bytes.
//! - **The secret of the session.** TLS derives it for both ends, and no two sessions have the same
//!   one. So a code that was recorded is of no use on the next connection. Nor can a stranger stand
//!   between two members and hand on their codes: it has one session with each, and the codes of
//!   one do not fit the other.
//! - **The role.** A stranger could send a member's own code back to it. The codes of client and
//!   server differ, so its own code is not the one that a member expects.
//!
//! Both sides send before they read, so the proof takes half a round trip, and neither waits for
//! the other in vain. 32 bytes always fit the socket's buffer. The proof is part of the upgrade of
//! the connection: before it has succeeded there are no streams, so no request is read. The timeout
//! of a dial bounds it too (`dial_timeout`, for both sides), so a peer that sends no code holds a
//! socket no longer than one that does not finish TLS. A network with a key offers only this
//! upgrade (`/watchfire/tls-membership/1.0.0`) and no QUIC, so a peer cannot choose a way without
//! the proof.
//!
//! **While the key changes**, a host has two keys: the new one and the one before. Otherwise a network
//! whose hosts restart one after the other would be two networks until the last of them has the new
//! key, and would fetch everything twice.
//!
//! - A peer with one key speaks as above, and knows nothing of this. A host with two keys reads its code
//!   first, and answers with the key that fits.
//! - Two hosts with two keys would both wait so. They use another upgrade
//!   (`/watchfire/tls-membership-of-two-keys/1.0.0`), in which each sends the codes of both keys, and one
//!   that fits is enough. A host with one key does not offer it.

use std::io;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::tls::TlsStream;

const LABEL: &[u8] = b"EXPORTER-watchfire-network-membership";
const SECRET_BYTES: usize = 32;
const CODE_BYTES: usize = 32;
/// TLS, and then one code in each direction.
const ONE_KEY: &str = "/watchfire/tls-membership/1.0.0";
/// TLS, and then two codes in each direction.
const TWO_KEYS: &str = "/watchfire/tls-membership-of-two-keys/1.0.0";

/// The key of the network, and perhaps the one before.
#[derive(Clone)]
pub(super) struct Membership(Vec<hmac::Key>);

impl Membership {
    pub(super) fn new(key: &[u8; 32], before: Option<&[u8; 32]>) -> Self {
        let keys = [Some(key), before].into_iter().flatten();
        Membership(keys.map(|key| hmac::Key::new(HMAC_SHA256, key)).collect())
    }

    /// The upgrades that prove membership, the preferred one first.
    pub(super) fn protocols(&self) -> &'static [&'static str] {
        if self.0.len() > 1 { &[TWO_KEYS, ONE_KEY] } else { &[ONE_KEY] }
    }

    /// Exchanges the codes of an upgrade. Fails if the peer has another key.
    pub(super) async fn verify<C: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut TlsStream<C>,
        protocol: &str,
    ) -> io::Result<()> {
        let (own_role, peer_role) = match stream {
            TlsStream::Client(_) => (b"client", b"server"),
            TlsStream::Server(_) => (b"server", b"client"),
        };
        let secret = secret_of(stream)?;
        let code = |key: &hmac::Key| hmac::sign(key, &[&secret[..], own_role].concat());
        // The peer has one key, and this host learns from its code which.
        let waits = protocol == ONE_KEY && self.0.len() > 1;
        if !waits {
            for key in &self.0 {
                stream.write_all(code(key).as_ref()).await?;
            }
            stream.flush().await?;
        }
        let codes = if protocol == TWO_KEYS { 2 } else { 1 };
        let mut received = vec![0; codes * CODE_BYTES];
        stream.read_exact(&mut received).await?;
        let expected = [&secret[..], peer_role].concat();
        let fits = |key: &&hmac::Key| {
            let mut codes = received.chunks(CODE_BYTES);
            codes.any(|code| hmac::verify(key, &expected, code).is_ok())
        };
        let key = self.0.iter().find(fits);
        let key = key.ok_or_else(|| io::Error::other("the peer has another network key"))?;
        if waits {
            stream.write_all(code(key).as_ref()).await?;
            stream.flush().await?;
        }
        Ok(())
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
