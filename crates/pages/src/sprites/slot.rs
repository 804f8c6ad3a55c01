//! One slot of this process, and the carrier of its arrivals.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use watchfire::ChannelAddress;
use watchfire::internal::{ParkResponse, ParkedRequest};
use watchfire_types::Instant;

use super::neighbours::Neighbours;

pub(super) struct LocalSlot {
    pub grid: Arc<str>,
    /// The last carrier, while the slot is reserved.
    pub carrier: Carrier,
    /// Whether a check is scheduled that the peer still polls.
    pub has_check: bool,
}

/// The carrier of a peer's arrivals.
pub(super) enum Carrier {
    Channel(ChannelAddress),
    Poll(Box<Poll>),
}

/// The future carrier of the arrivals of a joining peer.
pub(super) enum JoiningCarrier {
    Channel(ChannelAddress),
    /// Polls over plain HTTP, with the address that the peer counts against.
    Poll {
        counted: Option<IpAddr>,
    },
}

impl Carrier {
    pub fn of(joining: JoiningCarrier, now: Instant) -> Self {
        match joining {
            JoiningCarrier::Channel(address) => Carrier::Channel(address),
            JoiningCarrier::Poll { counted } => Carrier::Poll(Box::new(Poll {
                arrivals: VecDeque::new(),
                neighbours_changed: false,
                parked: None,
                last_request_at: now,
                counted,
            })),
        }
    }
}

pub(super) struct Poll {
    /// Arrivals for the next poll, as JSON; at most `arrivals_queued_max`.
    pub arrivals: VecDeque<Box<str>>,
    pub neighbours_changed: bool,
    pub parked: Option<Parked>,
    /// The time of the peer's last request.
    pub last_request_at: Instant,
    pub counted: Option<IpAddr>,
}

impl Poll {
    /// Whether the next poll gets a response at once.
    pub fn is_due(&self) -> bool {
        !self.arrivals.is_empty() || self.neighbours_changed
    }

    pub fn waits_on(&self, request: ParkedRequest) -> bool {
        self.parked.is_some_and(|parked| parked.request == request)
    }

    /// The parked request that its shard should answer; `None` when the shard was already notified.
    pub fn wake(&mut self) -> Option<ParkedRequest> {
        self.parked.as_mut().and_then(|parked| {
            let is_new = !std::mem::replace(&mut parked.is_woken, true);
            is_new.then_some(parked.request)
        })
    }
}

#[derive(Clone, Copy)]
pub(super) struct Parked {
    pub request: ParkedRequest,
    /// Whether its shard was notified to answer it.
    pub is_woken: bool,
}

impl Parked {
    /// The request, unless its shard was already notified.
    pub fn wake(self) -> Option<ParkedRequest> {
        (!self.is_woken).then_some(self.request)
    }
}

pub(super) enum PollResponse {
    Arrivals {
        arrivals: VecDeque<Box<str>>,
        neighbours: Neighbours,
    },
    /// A newer poll of the same peer waits.
    Superseded,
    NoSlot,
}

impl PollResponse {
    pub fn into_response(self) -> ParkResponse {
        let (status, body) = match self {
            PollResponse::Arrivals { arrivals, neighbours } => {
                let arrivals: Vec<&str> = arrivals.iter().map(|arrival| &**arrival).collect();
                let (arrivals, neighbours) = (arrivals.join(","), neighbours.to_json());
                (200, format!(r#"{{"arrivals":[{arrivals}],"neighbours":{neighbours}}}"#))
            }
            PollResponse::Superseded => (409, r#"{"reason":"a newer poll waits"}"#.into()),
            PollResponse::NoSlot => (410, r#"{"reason":"stale token"}"#.into()),
        };
        ParkResponse { status, body }
    }
}
