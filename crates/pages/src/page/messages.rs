//! Messages between processes about pages.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchfire::internal::Address;
use watchfire_tracker::Have;

use super::peer_json::PeerKind;

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message<'a> {
    /// A peer joined a page, or its progress changed.
    Peer {
        page: &'a str,
        peer: u64,
        address: Address,
        have: HaveCode,
        kind: PeerKind,
    },
    PeerGone {
        page: &'a str,
        peer: u64,
    },
    /// The receiver's subscription to a page ended, so what it knows of the sender's peers is outdated.
    Ended {
        page: &'a str,
    },
    PageUnavailable {
        page: &'a str,
    },
    /// The pages and relayed bytes of addresses at the sender.
    Quotas {
        pages: Vec<(IpAddr, u32)>,
        relayed: Vec<(IpAddr, u64)>,
    },
    /// The bytes that addresses relayed in their current day, and the time until it ends.
    DayUsages(Vec<(IpAddr, u64, Duration)>),
}

/// A [`Have`] between processes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum HaveCode {
    Nothing,
    Some,
    All,
}

impl From<Have> for HaveCode {
    fn from(have: Have) -> Self {
        match have {
            Have::Nothing => HaveCode::Nothing,
            Have::Some => HaveCode::Some,
            Have::All => HaveCode::All,
        }
    }
}

impl From<HaveCode> for Have {
    fn from(code: HaveCode) -> Self {
        match code {
            HaveCode::Nothing => Have::Nothing,
            HaveCode::Some => Have::Some,
            HaveCode::All => Have::All,
        }
    }
}

#[cfg(test)]
pub(crate) fn samples() -> Vec<watchfire::internal::Samples> {
    use watchfire::message_samples as samples;
    let (page, peer) = ("p", 7);
    let address: Address = postcard::from_bytes(&[1, 2, 3, 4]).expect("an address");
    let (have, kind) = (HaveCode::Some, PeerKind::Node);
    let at = IpAddr::from([192, 0, 2, 1]);
    let day = Duration::from_millis(1_500);
    vec![
        samples!(enum Message<'_>:
            Message::Peer { page, peer, address, have, kind },
            Message::PeerGone { page, peer },
            Message::Ended { page },
            Message::PageUnavailable { page },
            Message::Quotas { pages: vec![(at, 1)], relayed: vec![(at, 2)] },
            Message::DayUsages(vec![(at, 3, day)]),
        ),
        samples!(enum HaveCode: HaveCode::Nothing, HaveCode::Some, HaveCode::All),
        samples!(enum PeerKind: PeerKind::Tab, PeerKind::Node),
    ]
}
