//! The way of a throw: from its thrower to the neighbour at an edge.
//!
//! A channel belongs to the process of its slot. A client that polls throws in a request of its own,
//! and any process may receive that. Every process with slots on the grid knows the slots of all, so it
//! throws for the client: one message goes from there to the neighbour's process, and none when both are
//! the same. A process without slots on the grid asks the process of the client's slot: two messages
//! more, for the question and the answer.
//!
//! A process that throws for a client of another one reports the client there once a second, because a
//! client that throws is not gone. Such a report is a few bytes for all clients of a second.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use watchfire::{Body, ChannelAddress};
use watchfire_types::{Instant, NodeId, PeerId};

use super::grids::ReplicatedGrids;
use super::messages::Message;
use super::slot::Carrier;
use super::state::{NoSlot, State};
use super::throw_message::Throw;

/// How often a process reports the clients of others for which it threw.
const REPORT_PERIOD: Duration = Duration::from_secs(1);
/// Clients in one report.
const REPORTED_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thrown {
    /// A neighbour has the sprite.
    Across,
    /// No neighbour could take the sprite: it comes in at the thrower's opposite edge.
    Wrapped,
}

impl Thrown {
    pub fn to_json(self) -> Value {
        match self {
            Thrown::Across => json!({}),
            Thrown::Wrapped => json!({ "wrapped": true }),
        }
    }
}

/// Clients of other processes for which this one threw since its last report. Each has a slot, so the
/// number of slots bounds them.
#[derive(Default)]
pub(super) struct Throwers {
    of: HashMap<NodeId, HashSet<PeerId>>,
    reported_at: Option<Instant>,
}

impl ReplicatedGrids {
    pub(super) fn throw_from_channel(
        &self,
        peer: PeerId,
        channel: ChannelAddress,
        throw: &Throw,
    ) -> Result<Thrown, NoSlot> {
        let mut state = self.state.lock();
        if !state.is_carried_by(peer, channel) {
            return Err(NoSlot);
        }
        let grid = state.local[&peer].grid.clone();
        Ok(self.throw(&mut state, &grid, peer, throw))
    }

    /// Throws for a client whose token names this process.
    pub(super) fn throw_from_request(
        &self,
        grid: &str,
        peer: PeerId,
        throw: &Throw,
    ) -> Result<Thrown, NoSlot> {
        let mut state = self.state.lock();
        if !state.is_local(grid, peer) || !state.is_present(grid, peer) {
            return Err(NoSlot);
        }
        state.note_request(self.now(), peer);
        Ok(self.throw(&mut state, grid, peer, throw))
    }

    /// Throws for a client whose token names another process. `None`: only that process can.
    pub(super) fn throw_for(
        &self,
        node: NodeId,
        grid: &str,
        peer: PeerId,
        throw: &Throw,
    ) -> Option<Thrown> {
        let mut state = self.state.lock();
        let State { slots, throwers, .. } = &mut *state;
        if !slots.is_complete(grid) || slots.present_at(grid, peer) != Some(node) {
            return None;
        }
        throwers.of.entry(node).or_default().insert(peer);
        Some(self.throw(&mut state, grid, peer, throw))
    }

    fn throw(&self, state: &mut State, grid: &str, peer: PeerId, throw: &Throw) -> Thrown {
        let to = state.slots.towards(grid, peer, throw.edge);
        let Some(to) = to.filter(|to| *to != peer && !state.slots.is_reserved(grid, *to)) else {
            return Thrown::Wrapped;
        };
        let arrival = throw.arrival(peer);
        let is_taken = if state.local.contains_key(&to) {
            self.arrive(state, to, arrival)
        } else {
            let owner = state.slots.owner(grid, to);
            let (to, from, arrival) = (to.0, peer.0, &*arrival);
            let message = Message::Sprite { grid, to, from, arrival, is_returned: false };
            self.link.send(owner, &message).is_ok()
        };
        if is_taken { Thrown::Across } else { Thrown::Wrapped }
    }

    /// Gives a sprite to a peer of this process. Returns whether the peer takes it.
    fn arrive(&self, state: &mut State, to: PeerId, arrival: String) -> bool {
        let State { local, late, .. } = state;
        match local.get_mut(&to).map(|slot| &mut slot.carrier) {
            None => false,
            Some(Carrier::Channel(address)) => {
                self.push(*address, "arrive", Body::Json(arrival.into()))
            }
            Some(Carrier::Poll(poll)) => {
                let is_taken = poll.arrivals.len() < self.limits.arrivals_queued_max;
                if is_taken {
                    poll.arrivals.push_back(arrival.into());
                    if let Some(request) = poll.wake() {
                        self.wake(late, request);
                    }
                }
                is_taken
            }
        }
    }

    /// Handles a sprite that was thrown at another process. If its peer cannot take it, it returns
    /// to its thrower and comes in over the opposite edge. Returns false when the sprite is lost.
    pub(super) fn receive_sprite(
        &self,
        grid: &str,
        to: PeerId,
        from: PeerId,
        arrival: &str,
        is_returned: bool,
    ) -> bool {
        // Clients get the text as it is.
        if serde_json::from_str::<IgnoredAny>(arrival).is_err() {
            return false;
        }
        let mut state = self.state.lock();
        let is_present = state.is_local(grid, to) && !state.slots.is_reserved(grid, to);
        if is_present && self.arrive(&mut state, to, arrival.to_owned()) {
            return true;
        }
        let owner = state.slots.owner(grid, from);
        !is_returned && self.return_sprite(owner, grid, from, arrival)
    }

    /// Sends a sprite back to its thrower. Returns whether it is on its way.
    pub(super) fn return_sprite(
        &self,
        node: NodeId,
        grid: &str,
        thrower: PeerId,
        arrival: &str,
    ) -> bool {
        let (to, from) = (thrower.0, thrower.0);
        let message = Message::Sprite { grid, to, from, arrival, is_returned: true };
        self.link.send(node, &message).is_ok()
    }

    /// Reports to the other processes for which of their clients this one threw.
    pub(super) fn report_throwers(&self, state: &mut State, now: Instant) {
        let throwers = &mut state.throwers;
        if throwers.reported_at.is_some_and(|at| now.since(at) < REPORT_PERIOD) {
            return;
        }
        throwers.reported_at = Some(now);
        for (node, peers) in throwers.of.drain() {
            let peers: Vec<u64> = peers.into_iter().map(|peer| peer.0).collect();
            for peers in peers.chunks(REPORTED_MAX) {
                self.link.send(node, &Message::Threw { peers: peers.to_vec() }).ok();
            }
        }
    }

    /// Another process threw for clients of this one: they are not gone.
    pub(super) fn note_throwers(&self, peers: &[u64]) {
        let now = self.now();
        let mut state = self.state.lock();
        peers.iter().for_each(|peer| state.note_request(now, PeerId(*peer)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use watchfire::Settings;
    use watchfire::feature::PartLink;
    use watchfire::internal::{Addresses, ReportWaker, Seed};

    use super::super::grids::GridLimits;
    use super::super::messages::SlotState;
    use super::super::slot::JoiningCarrier;
    use super::*;
    use crate::fakes::{FakeBus, NoClients};
    use crate::format::part_name;

    const GRID: &str = "meadow";
    /// Bytes before the message of a part.
    const PART_BYTES: usize = 4;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn grids() -> (Arc<FakeBus>, ReplicatedGrids) {
        let bus = Arc::new(FakeBus::default());
        let link = PartLink::new(&bus.cluster(), part_name("sprites"));
        let limits = GridLimits::from(&Settings::default());
        let seed = || Seed::from(&[7; 32]);
        let waker = ReportWaker::new().0;
        let addresses = Addresses::new(&Settings::default().limits, 3, seed(), link.clone(), waker);
        let clients = Arc::new(NoClients);
        (bus, ReplicatedGrids::new(limits, seed(), clients, link, Arc::new(addresses)))
    }

    fn join(grids: &ReplicatedGrids, peer: u64) {
        let carrier = JoiningCarrier::Poll { counted: None };
        grids.join(at(0), GRID, None, PeerId(peer), carrier).unwrap();
    }

    fn throw(edge: &str) -> Throw {
        let text =
            format!(r#"{{"sprite":"kite","edge":"{edge}","at":0.5,"velocity":{{"x":1,"y":2}}}}"#);
        Throw::parse(text.as_bytes(), 1_000).unwrap()
    }

    fn arrivals(grids: &ReplicatedGrids, peer: u64) -> usize {
        match &grids.state.lock().local[&PeerId(peer)].carrier {
            Carrier::Poll(poll) => poll.arrivals.len(),
            Carrier::Channel(_) => unreachable!("it polls"),
        }
    }

    #[test]
    fn a_throw_for_a_client_of_another_process_takes_one_message_at_most() {
        let (bus, grids) = grids();
        join(&grids, 1);
        grids.slots_changed(NodeId(1), GRID, &[(10, SlotState::Taken)]);
        grids.slots_changed(NodeId(2), GRID, &[(20, SlotState::Taken)]);
        for edge in ["left", "right", "up", "down"] {
            let thrown = grids.throw_for(NodeId(1), GRID, PeerId(10), &throw(edge));
            assert_eq!(thrown, Some(Thrown::Across), "{edge}");
        }
        // Left and right of three are the two others, and so are up and down.
        assert_eq!(arrivals(&grids, 1), 2);
        let sent = bus.take_sent();
        let messages = sent.iter().map(|(to, bytes)| (*to, &bytes[PART_BYTES..]));
        for (to, message) in messages {
            assert_eq!(to, NodeId(2));
            let Ok(Message::Sprite { to, from, is_returned, .. }) = postcard::from_bytes(message)
            else {
                panic!("not a sprite: {message:?}");
            };
            assert_eq!((to, from, is_returned), (20, 10, false));
        }
        assert_eq!(sent.len(), 2);
    }

    #[test]
    fn only_the_named_process_throws_for_a_client_that_another_one_may_not_know() {
        let (_, grids) = grids();
        let throw_for =
            |node, grid: &str| grids.throw_for(NodeId(node), grid, PeerId(10), &throw("left"));
        grids.slots_changed(NodeId(1), GRID, &[(10, SlotState::Taken)]);
        assert_eq!(throw_for(1, GRID), None, "no slot here, so others may be missing");
        join(&grids, 1);
        assert!(throw_for(1, GRID).is_some());
        assert_eq!(throw_for(2, GRID), None, "the client has moved");
        assert_eq!(throw_for(1, "desert"), None, "the token of another grid");
        grids.slots_changed(NodeId(1), GRID, &[(10, SlotState::Reserved)]);
        assert_eq!(throw_for(1, GRID), None, "its client is gone");
    }

    #[test]
    fn a_client_that_throws_through_another_process_is_not_gone() {
        let (bus, grids) = grids();
        join(&grids, 1);
        grids.slots_changed(NodeId(1), GRID, &[(10, SlotState::Taken)]);
        for _ in 0..3 {
            grids.throw_for(NodeId(1), GRID, PeerId(10), &throw("left"));
        }
        bus.take_sent();
        grids.handle_tick(at(1));
        grids.handle_tick(at(3));
        let sent = bus.take_sent();
        let [(NodeId(1), report)] = &sent[..] else { panic!("one report, not {sent:?}") };
        let report = postcard::from_bytes(&report[PART_BYTES..]);
        assert!(matches!(report, Ok(Message::Threw { peers }) if peers == [10]));

        grids.handle_tick(at(29));
        grids.note_throwers(&[1, 77]);
        grids.handle_tick(at(31));
        assert!(grids.state.lock().is_present(GRID, PeerId(1)), "it threw two seconds ago");
        grids.handle_tick(at(62));
        assert!(!grids.state.lock().is_present(GRID, PeerId(1)), "it is silent for 33 seconds");
    }

    #[test]
    fn a_sprite_from_a_link_that_is_not_json_is_lost() {
        let (_, grids) = grids();
        join(&grids, 1);
        let receive = |arrival| grids.receive_sprite(GRID, PeerId(1), PeerId(2), arrival, false);
        assert!(receive(r#"{"sprite":"kite"}"#));
        for arrival in ["", "{", r#"{"sprite":"kite"}]"#] {
            assert!(!receive(arrival), "{arrival}");
        }
        assert_eq!(arrivals(&grids, 1), 1);
    }
}
