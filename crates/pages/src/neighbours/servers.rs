//! The servers of `neighbours.servers`, and the others that are known.

use std::collections::BTreeSet;
use std::net::IpAddr;

use http::Uri;
use parking_lot::RwLock;
use watchfire::feature::{Counter, MetricWriter};
use watchfire_https::server_url;

use crate::settings::NeighbourSettings;

/// Servers that the settings may name.
pub(super) const SERVERS_MAX: usize = 32;
/// The longest name of the DNS.
const HOST_BYTES_MAX: usize = 253;

/// Why the neighbours of the settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NeighbourError {
    #[error(
        "cannot use {server:?} of neighbours.servers: write an origin such as \
         \"https://a.example\", without a path"
    )]
    Origin { server: String },
    #[error("neighbours.servers names {server:?} twice: remove one of them")]
    Repeated { server: String },
    #[error("cannot use {count} neighbours.servers: name at most {SERVERS_MAX}")]
    TooMany { count: usize },
    #[error("cannot use neighbours.depth {depth}: write 1 or 2")]
    Depth { depth: u8 },
}

/// The origins of the settings, each as browsers write it.
pub(crate) fn origins(settings: &NeighbourSettings) -> Result<Vec<String>, NeighbourError> {
    let NeighbourSettings { servers, depth, .. } = settings;
    if !(1..=2).contains(depth) {
        return Err(NeighbourError::Depth { depth: *depth });
    }
    if servers.len() > SERVERS_MAX {
        return Err(NeighbourError::TooMany { count: servers.len() });
    }
    let mut origins = Vec::with_capacity(servers.len());
    for server in servers {
        let origin = origin(server);
        let origin = origin.ok_or_else(|| NeighbourError::Origin { server: server.clone() })?;
        if origins.contains(&origin) {
            return Err(NeighbourError::Repeated { server: server.clone() });
        }
        origins.push(origin);
    }
    Ok(origins)
}

/// The origin of a server as browsers write it: in lower case, without the default port. `None`: the text is
/// not an origin, or its host is longer than a name can be.
pub(super) fn origin(text: &str) -> Option<String> {
    let uri: Uri = server_url(text)?;
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() || text.contains('#') {
        return None;
    }
    let scheme = uri.scheme_str()?.to_ascii_lowercase();
    let default_port = if scheme == "https" { 443 } else { 80 };
    let host = uri.host()?.to_ascii_lowercase();
    if host.len() > HOST_BYTES_MAX {
        return None;
    }
    Some(match uri.port_u16().filter(|port| *port != default_port) {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    })
}

/// Whether an origin leads to this machine or into a private network, or to no address at all. A name may get
/// another address later; then a request for a filter goes there, and tells nobody what it finds.
pub(super) async fn is_private(origin: &str) -> bool {
    let addresses = addresses_of(origin).await;
    addresses.is_empty() || addresses.into_iter().any(is_private_address)
}

/// Whether an origin has addresses, and all of them are of this machine or of private networks.
pub(super) async fn is_near(origin: &str) -> bool {
    let addresses = addresses_of(origin).await;
    !addresses.is_empty() && addresses.into_iter().all(is_private_address)
}

/// The addresses of an origin. None if its name cannot be looked up.
async fn addresses_of(origin: &str) -> Vec<IpAddr> {
    let Some(uri) = server_url(origin) else { return Vec::new() };
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let Ok(addresses) = tokio::net::lookup_host((host, 0)).await else { return Vec::new() };
    addresses.map(|address| address.ip().to_canonical()).collect()
}

fn is_private_address(address: IpAddr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || match address {
            IpAddr::V4(address) => {
                let [first, second, ..] = address.octets();
                let is_shared = first == 100 && (64..128).contains(&second);
                address.is_private() || address.is_link_local() || is_shared || first >= 240
            }
            IpAddr::V6(address) => address.is_unique_local() || address.is_unicast_link_local(),
        }
}

/// The origins of all servers that are neighbours now: those of the settings, and with `depth = 2` those that
/// they name.
#[derive(Debug, Default)]
pub(crate) struct KnownServers(RwLock<BTreeSet<String>>);

impl KnownServers {
    /// Whether a browser's origin is that of a neighbour.
    pub fn contains(&self, origin: &str) -> bool {
        self.0.read().contains(origin)
    }

    pub fn set(&self, origins: impl IntoIterator<Item = String>) {
        *self.0.write() = origins.into_iter().collect();
    }
}

/// The label of metrics with the origin of a server of the settings, or [`OTHER`].
pub(crate) const SERVER: &str = "server";
/// All other servers together: anybody may run one, and a metric has a bounded number of series.
const OTHER: &str = "other";

/// The values of the servers of the settings, and what the others have of the sum of all.
pub(super) fn by_server(
    named: &[String],
    value: impl Fn(&str) -> u64,
    all: u64,
) -> Vec<(&str, u64)> {
    let mut values: Vec<_> = named.iter().map(|origin| (&**origin, value(origin))).collect();
    let of_named: u64 = values.iter().map(|(_, value)| value).sum();
    values.push((OTHER, all.saturating_sub(of_named)));
    values
}

/// A counter for each server of the settings, and one for the others.
pub(super) struct ServerCounters {
    named: Vec<String>,
    counters: Vec<Counter>,
}

impl ServerCounters {
    pub fn new(named: &[String]) -> Self {
        let counters = (0..=named.len()).map(|_| Counter::default()).collect();
        ServerCounters { named: named.to_vec(), counters }
    }

    pub fn add(&self, origin: &str, count: usize) {
        let at = self.named.iter().position(|named| named == origin);
        self.counters[at.unwrap_or(self.named.len())].add(count as u64);
    }

    pub fn write(&self, writer: &mut MetricWriter, name: &str, help: &str) {
        let names = self.named.iter().map(String::as_str).chain([OTHER]);
        let counts: Vec<_> = names.zip(self.counters.iter().map(Counter::get)).collect();
        writer.counters_by(name, help, SERVER, &counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(servers: &[&str]) -> Result<Vec<String>, NeighbourError> {
        let servers = servers.iter().map(ToString::to_string).collect();
        origins(&NeighbourSettings { servers, ..NeighbourSettings::default() })
    }

    #[test]
    fn an_origin_is_what_browsers_write() {
        let servers = ["https://A.example/", "http://127.0.0.1:4000", "https://b.example:443"];
        let origins = ["https://a.example", "http://127.0.0.1:4000", "https://b.example"];
        assert_eq!(of(&servers).unwrap(), origins);
    }

    #[tokio::test]
    async fn an_address_of_a_private_network_is_recognised() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1:8080",
            "169.254.0.1",
            "[::1]",
            "[fd00::1]:4000",
            "[::ffff:10.0.0.1]",
            "100.64.0.1",
            "0.0.0.0",
            "localhost",
        ] {
            let origin = format!("http://{private}");
            assert!(is_private(&origin).await && is_near(&origin).await, "{private}");
        }
        for public in ["8.8.8.8", "[2600::1]:4000"] {
            let origin = format!("https://{public}");
            assert!(!is_private(&origin).await && !is_near(&origin).await, "{public}");
        }
        let none = "no origin, so it has no address";
        assert!(is_private(none).await && !is_near(none).await);
    }

    #[test]
    fn a_host_has_at_most_the_length_of_a_name() {
        let of_length = |bytes: usize| origin(&format!("https://{}", "a".repeat(bytes)));
        assert!(of_length(253).is_some() && of_length(254).is_none());
    }

    #[test]
    fn what_is_no_origin_is_refused_by_its_name() {
        for server in [
            "a.example",
            "https://a.example/p",
            "https://a.example/?q",
            "https://me@a.example",
            "ws://a",
        ] {
            let error = of(&[server]).unwrap_err().to_string();
            assert!(error.contains(server) && error.contains("write an origin"), "{error}");
        }
        let error = of(&["https://a.example", "https://A.example:443/"]).unwrap_err();
        assert!(matches!(error, NeighbourError::Repeated { .. }));
        let many: Vec<String> = (0..33).map(|number| format!("https://{number}.example")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(of(&many[..32]).is_ok());
        assert!(matches!(of(&many), Err(NeighbourError::TooMany { count: 33 })));
        let settings = NeighbourSettings { depth: 3, ..NeighbourSettings::default() };
        assert!(matches!(origins(&settings), Err(NeighbourError::Depth { depth: 3 })));
    }
}
