//! `<clients>`: the machines of users. Here all users run on this machine.

use std::net::IpAddr;

use super::Result;
use super::element::Element;
use crate::scenario::sources::add_addresses;

/// The limits and addresses of all machines together.
pub(super) struct Clients {
    pub(super) users_max: u64,
    pub(super) sources: Vec<IpAddr>,
}

impl Clients {
    pub(super) fn read(list: Option<&Element<'_, '_>>) -> Result<Clients> {
        let mut clients = Clients { users_max: 0, sources: Vec::new() };
        let elements = list.map(|list| {
            list.attributes(&[])?;
            list.children(&["client"])?;
            Ok(list.elements())
        });
        for client in elements.transpose()?.into_iter().flatten() {
            client.attributes(&[
                "host",
                "weight",
                "maxusers",
                "cpu",
                "use_controller_vm",
                "type",
            ])?;
            client.one_of("type", &["machine"])?;
            client.children(&["ip", "iprange"])?;
            client.number("weight")?;
            // Tsung's default.
            let users_max = client.whole("maxusers")?.unwrap_or(800);
            clients.users_max = clients.users_max.saturating_add(users_max);
            for ip in client.elements() {
                clients.read_addresses(&ip)?;
            }
        }
        if clients.users_max == 0 {
            clients.users_max = u64::MAX;
        }
        Ok(clients)
    }

    fn read_addresses(&mut self, ip: &Element<'_, '_>) -> Result<()> {
        let value = if ip.name() == "ip" {
            ip.attributes(&["value", "scan"])?;
            ip.one_of("scan", &["false"])?;
            ip.needed("value")?.to_owned()
        } else {
            ip.attributes(&["v4", "version"])?;
            last_octet_range(ip.needed("v4")?)
        };
        add_addresses(&mut self.sources, &value).map_err(|problem| ip.error(problem))
    }
}

/// Convert `10.0.0.1-20` to `10.0.0.1-10.0.0.20`.
fn last_octet_range(text: &str) -> String {
    match (text.split_once('-'), text.rsplit_once('.')) {
        (Some((first, last)), Some((network, _))) if !last.contains('.') => {
            format!("{first}-{network}.{last}")
        }
        _ => text.to_owned(),
    }
}
