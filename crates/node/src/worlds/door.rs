//! The server's own way in, for visits of its own: no port, no TLS, no name.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream as StdStream;
use std::pin::Pin;

use edge::{Adopter, Parcel};
use serde_json::{Value, json};
use visit::{Connection, Door};

/// By this a join is known to be of our own visit.
#[derive(Clone)]
pub(crate) struct VisitKey(String);

impl VisitKey {
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)?;
        Ok(VisitKey(secret.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// What goes along with the join.
    pub fn to_json(&self) -> Value {
        json!({ "visit": self.0 })
    }

    pub fn is(&self, said: &str) -> bool {
        // Who sees how long this takes sees more of this machine than the key is worth.
        self.0 == said
    }
}

/// Gives one end of a socket pair to the event loops, as if a client had come.
pub(super) struct BackDoor {
    pub adopter: Adopter,
    pub websocket_path: String,
}

impl Door for BackDoor {
    fn open(&self) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn Connection>>> + Send + '_>> {
        Box::pin(async {
            let (ours, theirs) = StdStream::pair()?;
            let from = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let parcel = Parcel {
                fd: theirs.into(),
                bytes: Vec::new(),
                pair_peer: Some(from),
                hops: 0,
                declined: 0,
            };
            let crowded = |_| io::Error::other("the event loops have too much to take in");
            self.adopter.adopt(parcel).map_err(crowded)?;
            ours.set_nonblocking(true)?;
            Ok(Box::new(tokio::net::UnixStream::from_std(ours)?) as Box<dyn Connection>)
        })
    }

    fn address(&self) -> String {
        format!("ws://localhost{}?vsn=2.0.0", self.websocket_path)
    }
}
