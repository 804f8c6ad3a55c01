//! Messages, the connections that carry them, and the exchange of each host.

use watchfire_bitswap::{Output, Payload, Protocol};

use super::{FleetMessage, REGISTRY, Simulation, Timer};
use crate::dag::FakeBlock;
use crate::fleet::host::HostId;
use crate::network::Host;

/// Round trips until a connection can be used.
const ROUND_TRIPS_TO_CONNECT: u32 = 3;

impl Simulation<'_> {
    /// Sends a message, after the handshakes of a connection if there is none.
    pub(super) fn send(&mut self, host: HostId, to: HostId, message: FleetMessage) {
        if !self.is_online(host) {
            return;
        }
        if self.network.is_open(Host(host), Host(to)) {
            // Requests have streams of their own, so they do not wait behind blocks.
            let bytes = message.bytes();
            return self.network.send_ahead(self.now, Host(host), Host(to), bytes, message);
        }
        let waiting = self.waiting.entry((host, to)).or_default();
        waiting.push(message);
        if waiting.len() > 1 {
            return;
        }
        let round_trip = 2 * self.path(host, to).delay;
        let has_room = to == REGISTRY || self.host(to).handshakes < self.plan.handshakes_max;
        if !self.is_online(to) {
            // Nothing answers: its requests time out.
            self.waiting.remove(&(host, to));
        } else if has_room {
            self.host(to).handshakes += 1;
            let at = self.now + round_trip * ROUND_TRIPS_TO_CONNECT;
            self.timers.push(at, Timer::Connected(host, to, true));
        } else {
            self.timers.push(self.now + round_trip, Timer::Connected(host, to, false));
        }
    }

    pub(super) fn connected(&mut self, host: HostId, other: HostId, is_accepted: bool) {
        let now = self.now;
        if is_accepted {
            self.host(other).handshakes -= 1;
        }
        let messages = self.waiting.remove(&(host, other)).unwrap_or_default();
        if !self.is_online(host) || !self.is_online(other) {
            return;
        }
        let max = self.plan.connections_max;
        let has_room = |fleet: &Self, host: HostId| {
            host == REGISTRY || fleet.hosts[host as usize].peers.len() < max
        };
        let is_open = self.network.is_open(Host(host), Host(other));
        if !is_open && (!is_accepted || !has_room(self, host) || !has_room(self, other)) {
            self.rejected_connections += 1;
            return self.connection_failed(host, other, messages);
        }
        if !is_open {
            let path = self.path(host, other);
            self.network.open(Host(host), Host(other), path);
            if other != REGISTRY {
                for (one, two) in [(host, other), (other, host)] {
                    let room = self.network.room(Host(one), Host(two)) as usize;
                    let one = self.host(one);
                    one.peers.insert(two);
                    one.exchange.handle_connected(now, two, Protocol::Leaves);
                    one.exchange.handle_writable(now, two, room);
                    let peers = one.peers.len();
                    self.connections_max = self.connections_max.max(peers);
                }
                self.settle(host);
                self.settle(other);
            }
        }
        for message in messages {
            self.send(host, other, message);
        }
    }

    /// A host did not accept a connection. Requests to it fail.
    pub(super) fn connection_failed(
        &mut self,
        host: HostId,
        other: HostId,
        messages: Vec<FleetMessage>,
    ) {
        for message in messages {
            match message {
                FleetMessage::Report { layer, number, .. } => {
                    let download = self.host(host).downloads.get(&layer);
                    if download.is_some_and(|one| one.is_reporting && one.report == number) {
                        self.report_failed(host, layer);
                    }
                }
                FleetMessage::AskHashes { layer, .. } => {
                    if let Some(download) = self.host(host).downloads.get_mut(&layer) {
                        download.neighbours.remove(&other);
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn wake(&mut self, host: HostId) {
        let now = self.now;
        let one = self.host(host);
        if one.wake_at != Some(now) {
            return;
        }
        one.wake_at = None;
        if !one.is_online {
            return;
        }
        if one.exchange.next_wake().is_some_and(|at| at <= now) {
            one.exchange.handle_tick(now);
        }
        self.settle(host);
    }

    /// Handles all outputs of an exchange, and sets its timer.
    pub(super) fn settle(&mut self, host: HostId) {
        while let Some(output) = self.host(host).exchange.poll_output() {
            self.handle_output(host, output);
        }
        let now = self.now;
        let one = self.host(host);
        if !one.is_online {
            return;
        }
        let Some(at) = one.exchange.next_wake() else { return };
        let at = at.max(now);
        if one.wake_at.is_none_or(|set| set > at) {
            one.wake_at = Some(at);
            self.timers.push(at, Timer::Wake(host));
        }
    }

    pub(super) fn handle_output(&mut self, host: HostId, output: Output<HostId, FakeBlock>) {
        let now = self.now;
        match output {
            Output::Send { peer, message } => {
                let message = FleetMessage::Exchange(message);
                let bytes = message.bytes();
                self.network.send(now, Host(host), Host(peer), bytes, message);
            }
            Output::Lookup { cid } => {
                let one = &mut self.hosts[host as usize];
                let number = self.image.find(&cid).filter(|number| one.has(*number));
                let len = number.map(|number| self.image.len_of(number) as usize);
                one.exchange.handle_lookup(now, &cid, len);
            }
            Output::ListLinks { node } => self.host(host).exchange.handle_links(now, &node, None),
            Output::Read { peer, cid } => {
                let one = &mut self.hosts[host as usize];
                let number = self.image.find(&cid).filter(|number| one.has(*number));
                let block = number.map(|number| self.image.fake_block(number));
                one.exchange.handle_read(now, peer, &cid, block);
            }
            Output::BlockReceived { block, .. } => match self.image.find(block.cid()) {
                Some(number) => self.write(host, number, false),
                None => self.record_violation(host, format_args!("it accepted an unknown block")),
            },
            // The coordinator names the hosts that have blocks.
            Output::FindProviders { .. } | Output::Answered { .. } => {}
            Output::DropPeer { peer, reason } => {
                self.record_violation(host, format_args!("it dropped host {peer}: {reason}"));
                self.network.close(Host(host), Host(peer));
                self.host(host).peers.remove(&peer);
                self.notice_disconnect(peer, host);
            }
        }
    }
}
