use std::net::{SocketAddr, ToSocketAddrs as _};

/// A server that is put under load.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Host and port for the `Host` header.
    pub authority: String,
    /// The prefix of every path; empty, or `/…` without a slash at its end.
    pub prefix: String,
    /// The weight of this server compared with the others.
    pub weight: f64,
    /// Host and port to resolve, and the resolved address.
    host_and_port: String,
    address: Option<SocketAddr>,
}

impl Target {
    /// Parse `ws://host:port/prefix` or `http://…`.
    pub(crate) fn parse(url: &str, weight: f64) -> Result<Target, String> {
        let (scheme, rest) =
            url.split_once("://").ok_or("invalid URL; use one such as ws://localhost:4000")?;
        match scheme {
            "ws" | "http" => {}
            "wss" | "https" => {
                return Err(format!(
                    "{scheme} is not supported; use the address of the server behind the TLS proxy"
                ));
            }
            _ => return Err(format!("{scheme} is not supported; use ws or http")),
        }
        let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let has_port =
            authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let host_and_port = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let prefix = prefix.trim_end_matches('/').to_owned();
        Ok(Target { authority: authority.to_owned(), prefix, weight, host_and_port, address: None })
    }

    /// Resolve the name.
    pub(crate) fn resolve(&mut self) -> Result<(), String> {
        let found = self.host_and_port.to_socket_addrs();
        let mut found = found.map_err(|error| format!("{}: {error}", self.authority))?;
        self.address =
            Some(found.next().ok_or_else(|| format!("{} has no address", self.authority))?);
        Ok(())
    }

    /// The resolved address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address.expect("targets are resolved before the load begins")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_host_port_and_prefix() {
        let resolved = |url| {
            let mut target = Target::parse(url, 2.0).unwrap();
            target.resolve().unwrap();
            target
        };
        let target = resolved("ws://127.0.0.1:4000/live/");
        assert_eq!(
            (target.authority.as_str(), target.prefix.as_str()),
            ("127.0.0.1:4000", "/live")
        );
        assert_eq!(target.address(), SocketAddr::from(([127, 0, 0, 1], 4000)));
        assert_eq!(resolved("http://127.0.0.1").address().port(), 80);
        assert_eq!(resolved("http://[::1]:81").address().port(), 81);
    }

    #[test]
    fn unsupported_schemes_are_rejected() {
        for url in ["localhost:4000", "wss://127.0.0.1", "gopher://127.0.0.1", "ws://127.0.0.1:x"] {
            let target = Target::parse(url, 1.0).and_then(|mut target| target.resolve());
            assert!(target.is_err(), "{url}");
        }
    }
}
