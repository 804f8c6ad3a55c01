//! An encrypted connection between a controller and an agent that know the same token.
//!
//! Both need no certificate that somebody issued: the side that accepts makes one for its process, and the other side
//! accepts any. The token takes its place. Each side proves that it knows the token with a value that TLS derives from the
//! keys of this connection and from the token (RFC 8446, 7.5; the same use as RFC 9266). A program between the two has
//! one connection with each, and their keys differ, so a proof that it receives on one is worth nothing on the other. The
//! token itself is never sent. A program that only takes the place of a controller receives a proof, with which it can
//! try tokens: that is why a token must be random.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use crate::tls::Unverified;

/// The name in the certificate, which nobody checks.
const NAME: &str = "watchfire-load";
const PROOF_BYTES: usize = 32;
const READ_BYTES: usize = 16 << 10;

/// The side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Agent,
    Controller,
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Side::Agent => "agent",
            Side::Controller => "controller",
        }
    }

    pub(crate) fn other(self) -> Side {
        match self {
            Side::Agent => Side::Controller,
            Side::Controller => Side::Agent,
        }
    }
}

/// One side of a connection. Of two clones, one may read while the other one writes.
#[derive(Clone)]
pub(crate) struct Channel {
    tls: Arc<Mutex<Connection>>,
    tcp: Arc<TcpStream>,
    /// Received, and not read yet.
    received: Vec<u8>,
    /// Reading fails after this time.
    pub(crate) deadline: Option<Instant>,
}

impl Channel {
    /// Answers the handshake of the other side, until `deadline`.
    pub(crate) fn accept(tcp: Arc<TcpStream>, deadline: Instant) -> io::Result<Channel> {
        static SERVER: OnceLock<Arc<ServerConfig>> = OnceLock::new();
        let server = match SERVER.get() {
            Some(server) => server,
            None => {
                let made = server_config().map_err(io::Error::other)?;
                SERVER.get_or_init(|| Arc::new(made))
            }
        };
        let tls = ServerConnection::new(Arc::clone(server)).map_err(io::Error::other)?;
        Channel::shake_hands(Connection::Server(tls), tcp, deadline)
    }

    /// Begins the handshake.
    pub(crate) fn connect(tcp: Arc<TcpStream>, deadline: Instant) -> io::Result<Channel> {
        let provider = Arc::new(ring::default_provider());
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
            .with_no_client_auth();
        let name = ServerName::try_from(NAME).expect("it is a name");
        let tls = ClientConnection::new(Arc::new(client), name).map_err(io::Error::other)?;
        Channel::shake_hands(Connection::Client(tls), tcp, deadline)
    }

    fn shake_hands(tls: Connection, tcp: Arc<TcpStream>, deadline: Instant) -> io::Result<Channel> {
        // A line is written in several parts.
        tcp.set_nodelay(true)?;
        let tls = Arc::new(Mutex::new(tls));
        let mut channel = Channel { tls, tcp, received: Vec::new(), deadline: Some(deadline) };
        loop {
            channel.flush()?;
            if !channel.tls().is_handshaking() {
                return Ok(channel);
            }
            if let Err(error) = channel.receive() {
                // The other side may read the reason.
                let _ = channel.flush();
                return Err(error);
            }
        }
    }

    /// Returns the proof that one side has the token, which holds for this connection only.
    pub(crate) fn proof(&self, side: Side, token: &str) -> io::Result<String> {
        let label: &[u8] = match side {
            Side::Agent => b"EXPORTER-watchfire-load-agent",
            Side::Controller => b"EXPORTER-watchfire-load-controller",
        };
        let bytes = self
            .tls()
            .export_keying_material([0; PROOF_BYTES], label, Some(token.as_bytes()))
            .map_err(io::Error::other)?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn tls(&self) -> MutexGuard<'_, Connection> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for bytes of the other side, and decrypts them. Returns whether there may be more.
    fn receive(&mut self) -> io::Result<bool> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if let Some(left) = left {
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.tcp.set_read_timeout(Some(left))?;
        }
        let mut buffer = [0; READ_BYTES];
        let len = loop {
            match (&*self.tcp).read(&mut buffer) {
                // A signal, or a machine that stopped for a moment.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let cause = "the other side sent nothing in time";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, cause));
                }
                read => break read?,
            }
        };
        let (mut bytes, mut plain) = (&buffer[..len], Vec::new());
        let mut tls = self.tls.lock().unwrap_or_else(PoisonError::into_inner);
        if len == 0 && tls.is_handshaking() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while !bytes.is_empty() {
            tls.read_tls(&mut bytes)?;
            let state = tls.process_new_packets().map_err(io::Error::other)?;
            let at = plain.len();
            plain.resize(at + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(&mut plain[at..])?;
        }
        drop(tls);
        self.received.extend(plain);
        Ok(len > 0)
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.received.is_empty() {
            if !self.receive()? {
                return Ok(0);
            }
        }
        let len = buffer.len().min(self.received.len());
        buffer[..len].copy_from_slice(&self.received[..len]);
        self.received.drain(..len);
        Ok(len)
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.tls().writer().write(bytes)?;
        self.flush()?;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut encrypted = Vec::new();
        let mut tls = self.tls();
        while tls.wants_write() {
            tls.write_tls(&mut encrypted)?;
        }
        // A full socket must not keep the other clone from reading.
        drop(tls);
        (&*self.tcp).write_all(&encrypted)
    }
}

fn server_config() -> Result<ServerConfig, Box<dyn std::error::Error + Send + Sync>> {
    let own = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der())?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(&[&TLS13])?.with_no_client_auth();
    Ok(builder.with_single_cert(vec![own.cert.der().clone()], key)?)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    fn pair() -> [Channel; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let other = std::thread::spawn(move || {
            Channel::connect(Arc::new(TcpStream::connect(address).unwrap()), deadline).unwrap()
        });
        let stream = Arc::new(listener.accept().unwrap().0);
        [Channel::accept(stream, deadline).unwrap(), other.join().unwrap()]
    }

    #[test]
    fn a_proof_is_of_one_connection_one_side_and_one_token() {
        let [here, there] = pair();
        let proof = |channel: &Channel, side, token| channel.proof(side, token).unwrap();
        let expected = proof(&here, Side::Agent, "a token");
        assert_eq!(proof(&there, Side::Agent, "a token"), expected);
        assert_ne!(proof(&there, Side::Controller, "a token"), expected);
        assert_ne!(proof(&there, Side::Agent, "another token"), expected);
        let [elsewhere, _] = pair();
        assert_ne!(proof(&elsewhere, Side::Agent, "a token"), expected);
    }

    #[test]
    fn both_sides_send_more_than_their_sockets_hold_at_the_same_time() {
        let sides = pair();
        let sent = vec![7; 32 << 20];
        std::thread::scope(|scope| {
            for side in sides {
                let (mut reader, mut writer, sent) = (side.clone(), side, &sent);
                scope.spawn(move || writer.write_all(sent).unwrap());
                scope.spawn(move || {
                    let mut received = vec![0; sent.len()];
                    reader.read_exact(&mut received).unwrap();
                    assert!(received == *sent);
                });
            }
        });
    }
}
