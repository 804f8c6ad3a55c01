//! The addresses to which an upstream registry may send the mirror.
//!
//! A registry names other servers: in redirects to blobs, and as the server of its tokens. Without a
//! rule, a registry could make the mirror send requests to services of its own host or network.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// The networks that are not public and to which registries may nevertheless redirect.
#[derive(Clone, Debug, Default)]
pub struct RedirectRules {
    pub allowed: Vec<IpNet>,
}

impl RedirectRules {
    fn allows(&self, address: IpAddr) -> bool {
        is_public(address) || self.allowed.iter().any(|network| network.contains(&address))
    }

    /// Whether the host of a URL may be asked. The addresses of a host name are checked when it is
    /// resolved: see [`GuardedResolver`].
    pub(super) fn allows_url(&self, url: &Url) -> bool {
        let is_http = matches!(url.scheme(), "http" | "https");
        let host = url.host_str().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse();
        is_http && !host.is_empty() && address.map_or(true, |address| self.allows(address))
    }
}

/// Resolves host names to addresses that the rules allow.
#[derive(Clone, Debug)]
pub(super) struct GuardedResolver {
    pub(super) rules: Arc<RedirectRules>,
}

/// A host name has no address that may be asked.
#[derive(Debug, thiserror::Error)]
#[error("{host} has no public address")]
pub(super) struct NoPublicAddress {
    host: String,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let rules = self.rules.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> =
                found.filter(|address| rules.allows(address.ip())).collect();
            if allowed.is_empty() {
                return Err(Box::new(NoPublicAddress { host }).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Whether an address can belong to a server on the public internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, third, _] = address.octets();
            let is_shared = first == 100 && (64..128).contains(&second);
            let is_protocol = first == 192 && second == 0 && third == 0;
            let is_benchmark = first == 198 && (18..20).contains(&second);
            !(first == 0
                || address.is_loopback()
                || address.is_private()
                || address.is_link_local()
                || address.is_broadcast()
                || address.is_multicast()
                || address.is_documentation()
                || first >= 240
                || is_shared
                || is_protocol
                || is_benchmark)
        }
        IpAddr::V6(address) => {
            if let Some(address) = address.to_ipv4() {
                return is_public(IpAddr::V4(address));
            }
            let [first, second, ..] = address.segments();
            // NAT64 contains an IPv4 address in its last four bytes.
            if (first, second) == (0x64, 0xff9b) {
                let [.., a, b, c, d] = address.octets();
                return is_public(IpAddr::from([a, b, c, d]));
            }
            // 2000::/3 is the only allocated part of the public address space.
            first & 0xe000 == 0x2000 && (first, second) != (0x2001, 0xdb8)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_asked() {
        let rules = RedirectRules { allowed: vec!["10.1.0.0/16".parse().unwrap()] };
        let allows = |url: &str| rules.allows_url(&Url::parse(url).unwrap());
        for url in [
            "https://8.8.8.8/x",
            "http://[2600::1]/",
            "https://10.1.2.3/",
            "https://blobs.example/",
        ] {
            assert!(allows(url), "{url}");
        }
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0.0.0.0/",
            "http://10.2.0.1/",
            "http://169.254.169.254/latest",
            "http://192.168.1.1/",
            "http://100.64.0.1/",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[fe80::1]/",
            "http://[fd00::1]/",
            "ftp://8.8.8.8/",
            "file:///etc/passwd",
        ] {
            assert!(!allows(url), "{url}");
        }
    }

    #[tokio::test]
    async fn a_name_of_this_machine_is_not_resolved() {
        let resolver = GuardedResolver { rules: Arc::default() };
        let resolved = resolver.resolve("localhost".parse().unwrap()).await;
        assert!(resolved.is_err());
    }
}
