//! Where browsers learn at which address they are seen, so that they can meet directly.

use std::net::SocketAddr;

use serde_json::{Value, json};
use stun::{Responder, StunLimits};

use crate::server::StartError;
use crate::settings::StunSettings;

/// What browsers are told of the STUN responder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    /// None: the host that they have the page from.
    host: Option<String>,
    port: u16,
}

impl Announced {
    pub fn to_json(&self) -> Value {
        match &self.host {
            Some(host) => json!({ "host": host, "port": self.port }),
            None => json!({ "port": self.port }),
        }
    }

    /// Read `host:port`; an IPv6 address stands in brackets.
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port > 0)?;
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        let is_name = !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
        (is_name || is_bracketed).then(|| Announced { host: Some(host.into()), port })
    }
}

/// Read what is to be announced, before anything is started; `None` for what follows by itself.
pub(crate) fn announced(settings: &StunSettings) -> Result<Option<Announced>, StartError> {
    match settings.announce.as_str() {
        "" => Ok(None),
        text => match Announced::parse(text) {
            Some(announced) => Ok(Some(announced)),
            None => Err(StartError::Announce { announce: text.into() }),
        },
    }
}

/// Start to answer, and say what browsers are to be told. `serving` is where the server listens.
///
/// Where no address was asked for and that of the server is taken, nobody answers: then browsers
/// behind different routers go on by relay.
pub(crate) fn open(
    settings: &StunSettings,
    announced: Option<Announced>,
    serving: &[SocketAddr],
    is_shared: bool,
) -> Result<Option<(Responder, Announced)>, StartError> {
    if !settings.enabled {
        return Ok(None);
    }
    let limits = StunLimits {
        answers_per_second_address: settings.answers_per_second_address,
        answers_per_second: settings.answers_per_second,
    };
    let is_chosen = !settings.listen.is_empty();
    let addresses = if is_chosen { &settings.listen } else { serving };
    match Responder::start(addresses, is_shared, &limits) {
        Ok(responder) => {
            let by_itself = || {
                responder.addresses().first().map(|at| Announced { host: None, port: at.port() })
            };
            let announced = announced.or_else(by_itself);
            Ok(announced.map(|announced| (responder, announced)))
        }
        Err(error) if is_chosen => Err(error.into()),
        Err(error) => {
            tracing::warn!(%error, "browsers cannot learn their addresses here");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_a_port_can_be_announced_and_nothing_else() {
        for good in ["stun.example.org:3478", "192.0.2.1:4000", "[2001:db8::1]:3478"] {
            let (host, port) = good.rsplit_once(':').unwrap();
            let announced = Announced::parse(good).expect(good).to_json();
            assert_eq!(announced, json!({ "host": host, "port": port.parse::<u16>().unwrap() }));
        }
        for bad in ["", "3478", "host", "host:", ":3478", "host:0", "host:65536", "a b:1", "a/b:1"]
        {
            assert_eq!(Announced::parse(bad), None, "{bad}");
        }
    }
}
