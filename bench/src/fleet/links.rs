use serde::Serialize;

use super::testbed::Rates;

/// The rates of all links in Mbit/s, including headers. A host has the same rate in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Links {
    pub upstream_mbit: f64,
    pub host_mbit: f64,
}

impl Links {
    /// The least possible time in seconds until that many hosts have an image (Kumar and Ross, 2006),
    /// without headers: the registry sends each byte once, a host receives each byte once, and all
    /// uplinks together send every copy.
    pub fn bound_seconds(self, image_bytes: u64, hosts: usize) -> f64 {
        let (megabits, hosts) = (image_bytes as f64 * 8.0 / 1e6, hosts as f64);
        let all = self.upstream_mbit + hosts * self.host_mbit;
        let each_link = (megabits / self.upstream_mbit).max(megabits / self.host_mbit);
        each_link.max(hosts * megabits / all)
    }

    /// The time in seconds in which the registry sends every copy itself.
    pub fn registry_seconds(self, image_bytes: u64, hosts: usize) -> f64 {
        hosts as f64 * image_bytes as f64 * 8.0 / 1e6 / self.upstream_mbit
    }

    /// The links of the registry and of each host. The registry receives without a limit.
    pub fn rates(self, hosts: usize) -> Vec<Rates> {
        let both = Some(self.host_mbit);
        let mut rates = vec![Rates { up_mbit: both, down_mbit: both }; hosts + 1];
        rates[0] = Rates { up_mbit: Some(self.upstream_mbit), down_mbit: None };
        rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: u64 = 1_000_000;

    fn bound(upstream_mbit: f64, host_mbit: f64, hosts: usize) -> f64 {
        Links { upstream_mbit, host_mbit }.bound_seconds(MEGABYTE, hosts)
    }

    #[test]
    fn the_slowest_of_registry_host_and_all_uplinks_decides() {
        assert!((bound(8.0, 80.0, 10) - 1.0).abs() < 1e-9);
        assert!((bound(80.0, 8.0, 1) - 1.0).abs() < 1e-9);
        assert!((bound(9.0, 8.0, 100) - 1.0).abs() < 1e-9);
        // All uplinks together are never slower than the slowest link.
        assert!((bound(8.0, 8.0, 32) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_registry_alone_sends_every_copy() {
        let links = Links { upstream_mbit: 8.0, host_mbit: 16.0 };
        assert!((links.registry_seconds(MEGABYTE, 32) - 32.0).abs() < 1e-9);
        assert_eq!(links.rates(2).len(), 3);
    }
}
