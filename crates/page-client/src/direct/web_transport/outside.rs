//! The address outside of this machine at which a router forwards a port.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::{Instant, timeout};

use super::listener::lock;

/// The addresses of a name are looked up again after this time. Those of a home change now and then.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(300);
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// A host and a port. Of a name, browsers are told the addresses too: a browser that asks a person
/// before it connects to the local network does not dial a name, which can stand for an address there.
#[derive(Debug)]
pub(super) struct Outside {
    host: String,
    pub port: u16,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    /// At most one address of each family.
    addresses: Vec<IpAddr>,
    looked_up_at: Option<Instant>,
}

impl Outside {
    pub(super) fn new(host: String, port: u16) -> Self {
        Outside { host, port, found: Mutex::default() }
    }

    /// The host and the port.
    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The addresses that the name had at the last look-up.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        let found = lock(&self.found);
        found.addresses.iter().map(|address| SocketAddr::new(*address, self.port)).collect()
    }

    /// Looks up the addresses of a name, unless they are known. Must be called within a tokio
    /// runtime. Returns before the look-up has ended.
    pub(super) fn refresh(self: &Arc<Self>) {
        let mut found = lock(&self.found);
        let is_known = found.looked_up_at.is_some_and(|at| at.elapsed() < LOOKUP_INTERVAL);
        if is_known || is_address(&self.host) {
            return;
        }
        found.looked_up_at = Some(Instant::now());
        drop(found);
        tokio::spawn(Arc::clone(self).look_up());
    }

    async fn look_up(self: Arc<Self>) {
        match timeout(LOOKUP_TIMEOUT, lookup_host((self.host.as_str(), self.port))).await {
            Ok(Ok(addresses)) => {
                let addresses = first_of_each_family(addresses.map(|address| address.ip()));
                lock(&self.found).addresses = addresses;
            }
            // The last addresses may still be right.
            Ok(Err(_)) | Err(_) => {
                tracing::debug!(host = self.host, "cannot look up the address for browsers")
            }
        }
    }
}

fn is_address(host: &str) -> bool {
    host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

fn first_of_each_family(addresses: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut first: Vec<IpAddr> = Vec::new();
    for address in addresses {
        if !first.iter().any(|other| other.is_ipv4() == address.is_ipv4()) {
            first.push(address);
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_addresses_of_a_name_are_told_too() {
        let outside = Arc::new(Outside::new("localhost".to_owned(), 4433));
        assert!(outside.addresses().is_empty());
        Arc::clone(&outside).look_up().await;
        assert_eq!(outside.name(), "localhost:4433");
        let addresses = outside.addresses();
        assert!((1..=2).contains(&addresses.len()), "{addresses:?}");
        assert!(addresses.iter().all(|address| address.ip().is_loopback()), "{addresses:?}");
    }

    #[tokio::test]
    async fn an_address_is_not_looked_up() {
        for host in ["192.0.2.1", "[2001:db8::1]"] {
            let outside = Arc::new(Outside::new(host.to_owned(), 4433));
            outside.refresh();
            assert_eq!(lock(&outside.found).looked_up_at, None);
            assert_eq!(outside.name(), format!("{host}:4433"));
        }
    }

    #[test]
    fn one_address_of_each_family_is_used() {
        let all = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"];
        let first = first_of_each_family(all.iter().map(|address| address.parse().unwrap()));
        assert_eq!(first, [all[0], all[2]].map(|address| address.parse::<IpAddr>().unwrap()));
    }
}
