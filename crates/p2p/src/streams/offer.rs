use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;

use bitswap::{Protocol, leaves};
use libp2p::core::UpgradeInfo;
use libp2p::core::upgrade::{InboundUpgrade, OutboundUpgrade};
use libp2p::{Stream, StreamProtocol};

/// What a host speaks, the best first: leaves perhaps, and the versions of Bitswap.
#[derive(Clone, Debug)]
pub(crate) struct Offer(Arc<Vec<Version>>);

/// One of them under its name.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    name: StreamProtocol,
    protocol: Protocol,
}

impl AsRef<str> for Version {
    fn as_ref(&self) -> &str {
        self.name.as_ref()
    }
}

impl Offer {
    pub(crate) fn new(has_leaves: bool) -> Self {
        let version = |(name, protocol)| Version { name: StreamProtocol::new(name), protocol };
        let leaves = has_leaves.then_some((leaves::PROTOCOL_ID, Protocol::Leaves));
        Offer(Arc::new(leaves.into_iter().chain(Protocol::IDS).map(version).collect()))
    }
}

impl UpgradeInfo for Offer {
    type Info = Version;
    type InfoIter = std::vec::IntoIter<Version>;

    fn protocol_info(&self) -> Self::InfoIter {
        Vec::clone(&self.0).into_iter()
    }
}

impl InboundUpgrade<Stream> for Offer {
    type Output = (Stream, Protocol);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_inbound(self, stream: Stream, version: Version) -> Self::Future {
        ready(Ok((stream, version.protocol)))
    }
}

impl OutboundUpgrade<Stream> for Offer {
    type Output = (Stream, Protocol);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_outbound(self, stream: Stream, version: Version) -> Self::Future {
        ready(Ok((stream, version.protocol)))
    }
}
