//! STUN: sends browsers their public address, so that they can connect to each other directly.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use watchfire::feature::MetricWriter;
use watchfire::internal::MetricSource;

use super::allowance::StunLimits;
use super::counters::StunCounters;
use super::responder::{Responder, StartError};
use crate::settings::StunSettings;

/// Why STUN cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StunError {
    #[error(
        "cannot use stun.announce {announce:?}: it must be a host and a port, such as \"stun.example.org:3478\""
    )]
    Announce { announce: String },
    #[error("stun.listen: {0}")]
    Listen(StartError),
}

/// The counters of the responder; empty while nothing answers.
#[derive(Clone, Default)]
pub(crate) struct StunMetrics(pub Arc<OnceLock<Arc<StunCounters>>>);

impl MetricSource for StunMetrics {
    fn write_metrics(&self, writer: &mut MetricWriter) {
        let Some(totals) = self.0.get().map(|counters| counters.totals()) else { return };
        for (name, help, value) in [
            ("stun_answers", "STUN requests answered", totals.answers),
            ("stun_answers_outside", "STUN requests of other machines answered", totals.outside),
            ("stun_unreadable", "Datagrams that are not STUN requests", totals.unreadable),
            ("stun_over_rate", "STUN requests over the rate limit", totals.over_rate),
            ("stun_unsent", "STUN answers that the system did not take", totals.unsent),
        ] {
            writer.counter(name, help, value);
        }
    }
}

/// Where browsers reach the STUN responder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    /// `None`: the host from which they loaded the page.
    host: Option<String>,
    port: u16,
    /// Another port on which it answers. With answers from both, a browser can tell a symmetric NAT from others.
    second_port: Option<u16>,
}

impl Announced {
    pub fn to_json(&self) -> Value {
        let mut value = json!({ "port": self.port });
        if let Some(host) = &self.host {
            value["host"] = host.as_str().into();
        }
        if let Some(port) = self.second_port {
            value["second_port"] = port.into();
        }
        value
    }

    /// The first port of the responder, and the first other one.
    fn derived(addresses: &[SocketAddr]) -> Option<Self> {
        let port = addresses.first()?.port();
        let second_port = addresses.iter().map(SocketAddr::port).find(|other| *other != port);
        Some(Announced { host: None, port, second_port })
    }

    /// Parses `host:port`, with an IPv6 address in brackets.
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port > 0)?;
        let is_bracketed = host.starts_with('[') && host.ends_with(']');
        let is_name = !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
        (is_name || is_bracketed).then(|| Announced {
            host: Some(host.into()),
            port,
            second_port: None,
        })
    }
}

/// Parses `stun.announce`, before anything starts. `None` when it is empty.
pub(crate) fn announced(settings: &StunSettings) -> Result<Option<Announced>, StunError> {
    match settings.announce.as_str() {
        "" => Ok(None),
        text => match Announced::parse(text) {
            Some(announced) => Ok(Some(announced)),
            None => Err(StunError::Announce { announce: text.into() }),
        },
    }
}

/// The addresses of STUN and who can reach them, in a line for `--check`.
pub(crate) fn describe(settings: &StunSettings, serving: &[SocketAddr]) -> String {
    const BY_SERVER: &str = "all content between browsers on different networks passes this server";
    if !settings.enabled {
        return format!("STUN: off, so {BY_SERVER}");
    }
    let addresses = if settings.listen.is_empty() { serving } else { &settings.listen };
    let is_local = addresses.iter().all(|at| at.ip().is_loopback());
    if is_local && settings.announce.is_empty() {
        return format!(
            "STUN: on this machine only, so {BY_SERVER}; set stun.listen = [\"0.0.0.0:3478\"] and open \
             UDP port 3478, so that they connect directly"
        );
    }
    let port = addresses.first().map_or(0, SocketAddr::port);
    let announced = match settings.announce.as_str() {
        "" => format!("port {port} of the page's host"),
        announce => announce.to_owned(),
    };
    let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    format!(
        "STUN: on UDP {}, announced as {announced}; the firewall must let it through, and the \
         operator's page says when no browser from outside has reached it",
        addresses.join(", ")
    )
}

/// Starts to answer. Returns the responder and where browsers reach it. `serving` are the addresses
/// of the server, which are used when `stun.listen` is empty. The `processes` of the server share the
/// limits.
///
/// When one of the server's addresses is in use, STUN stays off: browsers behind different routers
/// then exchange blocks through the relay.
pub(crate) fn open(
    settings: &StunSettings,
    announced: Option<Announced>,
    serving: &[SocketAddr],
    is_shared: bool,
    processes: u32,
) -> Result<Option<(Responder, Announced)>, StunError> {
    if !settings.enabled {
        return Ok(None);
    }
    let limits = StunLimits {
        answers_per_second_per_address: settings.answers_per_second_per_address,
        answers_per_second: settings.answers_per_second,
        processes,
    };
    let is_configured = !settings.listen.is_empty();
    let addresses = if is_configured { &settings.listen } else { serving };
    match Responder::start(addresses, is_shared, &limits) {
        Ok(responder) => {
            let announced = announced.or_else(|| Announced::derived(responder.addresses()));
            Ok(announced.map(|announced| (responder, announced)))
        }
        Err(error) if is_configured => Err(StunError::Listen(error)),
        Err(error) => {
            tracing::warn!(%error, "cannot answer STUN; browsers behind different routers use the relay");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_says_where_browsers_reach_stun_and_when_they_cannot() {
        let serving = ["127.0.0.1:4000".parse().unwrap()];
        let mut settings = StunSettings::default();
        assert!(describe(&settings, &serving).starts_with("STUN: on this machine only"));
        settings.listen = vec!["0.0.0.0:3478".parse().unwrap(), "[::]:3478".parse().unwrap()];
        let line = describe(&settings, &serving);
        let start =
            "STUN: on UDP 0.0.0.0:3478, [::]:3478, announced as port 3478 of the page's host";
        assert!(line.starts_with(start), "{line}");
        settings.announce = "stun.example.org:3478".into();
        assert!(describe(&settings, &serving).contains("announced as stun.example.org:3478"));
        settings.enabled = false;
        assert!(describe(&settings, &serving).starts_with("STUN: off"));
    }

    #[test]
    fn two_ports_are_announced_however_many_addresses_have_them() {
        let derived = |addresses: &[&str]| {
            let parsed: Vec<SocketAddr> = addresses.iter().map(|at| at.parse().unwrap()).collect();
            Announced::derived(&parsed).map(|announced| announced.to_json())
        };
        assert_eq!(derived(&[]), None);
        let one = json!({ "port": 3478 });
        assert_eq!(derived(&["0.0.0.0:3478", "[::]:3478"]), Some(one));
        let two = json!({ "port": 3478, "second_port": 3479 });
        assert_eq!(derived(&["0.0.0.0:3478", "[::]:3478", "0.0.0.0:3479", "[::]:3480"]), Some(two));
    }

    #[test]
    fn only_a_host_and_a_port_can_be_announced() {
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
