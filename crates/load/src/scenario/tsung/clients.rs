//! `<clients>`: the machines of users. Here all users run on this machine, or on the agents.

use std::net::IpAddr;

use super::Result;
use super::element::Element;
use super::parts::Parts;
use crate::scenario::source_groups::{SourceGroup, add_addresses};

/// The limits and addresses of all machines together.
pub(super) struct Clients {
    pub(super) users_max: u64,
    pub(super) sources: Vec<SourceGroup>,
    /// The addresses of all groups, whose number is limited.
    addresses: Vec<IpAddr>,
}

impl Clients {
    pub(super) fn read(list: Option<&Element<'_, '_>>, parts: &mut Parts<'_>) -> Result<Clients> {
        let mut clients = Clients { users_max: 0, sources: Vec::new(), addresses: Vec::new() };
        let elements = list.map(|list| {
            list.attributes(&[])?;
            list.children(&["client"])?;
            Ok(list.elements())
        });
        for client in elements.transpose()?.into_iter().flatten() {
            clients.read_one(&client, parts)?;
        }
        if clients.users_max == 0 {
            clients.users_max = u64::MAX;
        }
        Ok(clients)
    }

    fn read_one(&mut self, client: &Element<'_, '_>, parts: &mut Parts<'_>) -> Result<()> {
        let known = ["host", "weight", "maxusers", "cpu", "use_controller_vm", "type"];
        client.attributes(&known)?;
        client.one_of("type", &["machine"])?;
        client.children(&["ip", "iprange"])?;
        let weight = client.number("weight")?.unwrap_or(1.0);
        // Tsung's default.
        let users_max = client.whole("maxusers")?.unwrap_or(800);
        self.users_max = self.users_max.saturating_add(users_max);
        let first = self.addresses.len();
        for ip in client.elements() {
            if ip.name() == "ip" && ip.one_of("scan", &["false", "true"])? == "true" {
                ip.attributes(&["value", "scan"])?;
                parts.note(&ip, "is ignored: the system chooses the addresses of users");
                continue;
            }
            let range = range(&ip)?;
            add_addresses(&mut self.addresses, &range).map_err(|problem| ip.error(problem))?;
        }
        let addresses = self.addresses[first..].to_vec();
        if !addresses.is_empty() {
            self.sources.push(SourceGroup { addresses, weight });
        }
        Ok(())
    }
}

fn range(ip: &Element<'_, '_>) -> Result<String> {
    if ip.name() == "ip" {
        ip.attributes(&["value", "scan"])?;
        return Ok(ip.needed("value")?.to_owned());
    }
    ip.attributes(&["v4", "value", "version"])?;
    ip.one_of("version", &["v4"])?;
    let value = ip.attribute("v4").or(ip.attribute("value"));
    Ok(last_octet_range(value.ok_or_else(|| ip.attribute_error("value", "is needed"))?))
}

/// Converts `10.0.0.1-20` to `10.0.0.1-10.0.0.20`.
fn last_octet_range(text: &str) -> String {
    match (text.split_once('-'), text.rsplit_once('.')) {
        (Some((first, last)), Some((network, _))) if !last.contains('.') => {
            format!("{first}-{network}.{last}")
        }
        _ => text.to_owned(),
    }
}
