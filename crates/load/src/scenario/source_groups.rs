//! The source addresses and ports of users, which both formats read.

use std::net::{IpAddr, Ipv4Addr};

/// Most source addresses of one scenario.
const SOURCES_MAX: usize = 65_536;

/// Source addresses of which users get equal shares, and the weight of them all together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SourceGroup {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) weight: f64,
}

/// The ports of a scenario that names none.
pub(super) const PORTS: (u16, u16) = (1024, 65_535);

/// Adds an address such as `127.0.1.1`, or a range such as `127.0.1.1-127.0.1.50`.
pub(super) fn add_addresses(sources: &mut Vec<IpAddr>, text: &str) -> Result<(), String> {
    let range = address_range(text).ok_or_else(|| format!("invalid address or range {text:?}"))?;
    sources.extend(range.take(SOURCES_MAX + 1 - sources.len()));
    if sources.len() > SOURCES_MAX { Err("more than 65,536 addresses".into()) } else { Ok(()) }
}

fn address_range(text: &str) -> Option<Box<dyn Iterator<Item = IpAddr>>> {
    let Some((first, last)) = text.split_once('-') else {
        return Some(Box::new(std::iter::once(text.trim().parse().ok()?)));
    };
    let bits = |text: &str| text.trim().parse::<Ipv4Addr>().ok().map(u32::from);
    let (first, last) = (bits(first)?, bits(last)?);
    let range = (first..=last).map(|bits| IpAddr::from(Ipv4Addr::from(bits)));
    (first <= last).then(|| Box::new(range) as _)
}

/// The lowest and the highest port.
pub(super) fn ports(min: u64, max: u64) -> Result<(u16, u16), &'static str> {
    match (u16::try_from(min), u16::try_from(max)) {
        (Ok(min @ 1..), Ok(max)) if min <= max => Ok((min, max)),
        _ => Err("the lower port must come first"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_addresses_may_be_ranges_and_are_bounded() {
        let count = |text| {
            let mut sources = Vec::new();
            add_addresses(&mut sources, text).map(|()| sources.len())
        };
        assert_eq!(count("127.0.1.254-127.0.2.1"), Ok(4));
        assert_eq!(count("::1"), Ok(1));
        assert_eq!(count("10.0.0.0-10.0.255.255"), Ok(SOURCES_MAX));
        assert_eq!(count("10.0.0.0-11.0.0.0").unwrap_err(), "more than 65,536 addresses");
        for invalid in ["127.0.1.9-127.0.1.1", "127.0.1"] {
            assert!(count(invalid).unwrap_err().starts_with("invalid address"), "{invalid}");
        }
    }
}
