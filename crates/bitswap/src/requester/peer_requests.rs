use std::collections::BTreeMap;

use watchfire_types::Instant;

use super::request_window::DeliveryRate;

#[derive(Clone, Debug)]
pub(crate) struct BlockRequest {
    pub requested_at: Instant,
    /// Whether the want-block was sent, and need not be sent again.
    pub is_sent: bool,
    /// Whether the want-block was sent with the priority of an urgent block.
    pub is_urgent: bool,
    /// Whether the want-block was sent before, so that two answers may arrive.
    pub is_repeated: bool,
    /// The block's length, or the estimate if it is unknown.
    pub bytes: usize,
    /// Bytes that the peer had delivered when the block was requested.
    delivered_before: u64,
    /// Bytes that were requested from the peer by then and not delivered.
    pub bytes_ahead: usize,
    /// Whether its bytes count towards the limit of all peers together.
    pub is_counted: bool,
    /// When a cancel was sent that applies only while the block is queued.
    pub cancel_sent_at: Option<Instant>,
}

impl BlockRequest {
    /// Whether the peer may have the want-block, and may answer it.
    pub(crate) const fn may_be_answered(&self) -> bool {
        self.is_sent || self.is_repeated
    }

    /// Bytes that the peer delivered since the request.
    pub(crate) const fn delivered_since(&self, delivery: &DeliveryRate) -> usize {
        (delivery.delivered - self.delivered_before) as usize
    }
}

/// The requests that are open at a peer, by the numbers of their wants.
#[derive(Debug, Default)]
pub(crate) struct PeerRequests {
    requests: BTreeMap<u32, BlockRequest>,
    bytes: usize,
}

impl PeerRequests {
    pub(crate) fn insert(&mut self, now: Instant, at: u32, bytes: usize, delivery: &DeliveryRate) {
        let request = BlockRequest {
            requested_at: now,
            is_sent: false,
            is_urgent: false,
            is_repeated: false,
            bytes,
            delivered_before: delivery.delivered,
            bytes_ahead: self.bytes,
            is_counted: true,
            cancel_sent_at: None,
        };
        if self.requests.insert(at, request).is_none() {
            self.bytes += bytes;
        }
    }

    pub(crate) fn remove(&mut self, at: u32) -> Option<BlockRequest> {
        let request = self.requests.remove(&at)?;
        self.bytes -= request.bytes;
        Some(request)
    }

    pub(crate) fn get(&self, at: u32) -> Option<&BlockRequest> {
        self.requests.get(&at)
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut BlockRequest> {
        self.requests.get_mut(&at)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &BlockRequest)> {
        self.requests.iter().map(|(at, request)| (*at, request))
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a request waits for the peer to confirm its cancel.
    pub(crate) fn is_being_cancelled(&self, at: u32) -> bool {
        self.get(at).is_some_and(|request| request.cancel_sent_at.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn each_request_knows_how_many_bytes_are_ahead_of_it() {
        let delivery = DeliveryRate::new(&Limits::default(), 2);
        let mut requests = PeerRequests::default();
        requests.insert(Instant::ZERO, 7, 100, &delivery);
        requests.insert(Instant::ZERO, 3, 50, &delivery);
        assert_eq!(requests.get(3).map(|request| request.bytes_ahead), Some(100));
        assert_eq!((requests.len(), requests.bytes()), (2, 150));
        assert_eq!(requests.remove(7).map(|request| request.bytes_ahead), Some(0));
        assert!(requests.remove(7).is_none());
        assert_eq!(requests.bytes(), 50);
    }
}
