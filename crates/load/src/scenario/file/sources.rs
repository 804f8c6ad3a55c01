//! `[sources]`: the source addresses and ports of users.

use std::net::{IpAddr, Ipv4Addr};

use serde::Deserialize;
use toml::Spanned;

use crate::scenario::ScenarioError;
use watchfire_report::scenario::SourceText;

/// Most source addresses of one scenario.
const SOURCES_MAX: usize = 65_536;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourcesFile {
    #[serde(default)]
    addresses: Vec<Spanned<String>>,
    ports: Option<Spanned<[u16; 2]>>,
}

impl SourcesFile {
    pub(super) fn addresses(&self, source: &SourceText<'_>) -> Result<Vec<IpAddr>, ScenarioError> {
        let mut addresses = Vec::new();
        for text in &self.addresses {
            let error = |problem: &str| source.error(text.span().start, "addresses", problem);
            let range = address_range(text.get_ref());
            let range = range.ok_or_else(|| error("invalid address or range of addresses"))?;
            for address in range {
                if addresses.len() == SOURCES_MAX {
                    return Err(error("more than 65,536 addresses"));
                }
                addresses.push(address);
            }
        }
        Ok(addresses)
    }

    pub(super) fn ports(&self, source: &SourceText<'_>) -> Result<(u16, u16), ScenarioError> {
        match &self.ports {
            None => Ok((1024, 65_535)),
            Some(ports) => match ports.get_ref() {
                [min, max] if *min > 0 && min <= max => Ok((*min, *max)),
                _ => {
                    Err(source.error(ports.span().start, "ports", "the lower port must come first"))
                }
            },
        }
    }
}

/// `127.0.1.1` or `127.0.1.1-127.0.1.50`.
pub(in crate::scenario) fn address_range(text: &str) -> Option<Box<dyn Iterator<Item = IpAddr>>> {
    match text.split_once('-') {
        None => {
            text.trim().parse::<IpAddr>().ok().map(|address| Box::new([address].into_iter()) as _)
        }
        Some((first, last)) => {
            let first = u32::from(first.trim().parse::<Ipv4Addr>().ok()?);
            let last = u32::from(last.trim().parse::<Ipv4Addr>().ok()?);
            let range = (first..=last).map(|bits| IpAddr::from(Ipv4Addr::from(bits)));
            (first <= last).then(|| Box::new(range) as _)
        }
    }
}
