use anyhow::{Result, bail, ensure};

use super::net::{Clients, ConnId, End, Net};
use super::upgrade::{JOIN_TIMEOUT_NS, RETRY_MILLIS, put_upgrade};
use super::wire::{Event, Position};
use crate::message::{self, WEBSOCKET_ACCEPT};
use crate::scale::clock::now_ns;
use crate::scale::orders::{Order, Status, Wire};

const TURN_NS: u64 = 20_000_000;
/// The upper bits of a timer's key are its purpose; the lower 32 bits are the slot.
const RECONNECT: u64 = 1 << 60;
const TIMEOUT: u64 = 2 << 60;

/// Websockets of one machine, each joined to a topic. When their machine ends they go to others.
#[derive(Default)]
pub struct Members {
    wire: Wire,
    prefix: String,
    first: u32,
    topics: u32,
    slots: Vec<Slot>,
    /// Slots that have started to connect for the first time.
    started: usize,
    opening: usize,
    opening_max: usize,
    publishing: Option<Publishing>,
    /// Number of the last message to a topic.
    last_sent: u32,
    /// The last position of each slot; empty until a topic has one.
    seen: Vec<Seen>,
    out: Vec<u8>,
    status: Status,
}

#[derive(Clone, Copy)]
struct Slot {
    conn: Option<ConnId>,
    stage: Stage,
    /// Failures since it was last joined.
    tries: u16,
    /// Distinguishes the timers of this attempt from those of earlier ones.
    attempt: u16,
    /// Whether its first machine has ended.
    has_moved: bool,
    last_received: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Away,
    Connecting,
    Upgrading,
    Greeting,
    Joining,
    Joined,
}

/// The position up to which a slot has the messages of its topic.
#[derive(Clone, Debug, Default)]
struct Seen {
    epoch: String,
    offset: u64,
}

/// Messages that are being sent.
struct Publishing {
    slots: u32,
    messages: u32,
    every_ns: u64,
    from_ns: u64,
    sent: u32,
    /// Number of the last message before these.
    base: u32,
}

impl Clients for Members {
    fn handle_order(&mut self, net: &mut Net, order: &Order) -> Result<()> {
        match order {
            Order::Enter { wire, prefix, first, count, topics, opening_max } => {
                ensure!(self.slots.is_empty(), "there are members already");
                (self.wire, self.prefix) = (*wire, prefix.clone());
                (self.first, self.topics) = (*first, (*topics).max(1));
                self.opening_max = *opening_max as usize;
                self.slots = vec![Slot::new(); *count as usize];
                self.fill_opening(net)
            }
            Order::Publish { slots, messages, every_ns } => {
                ensure!(self.publishing.is_none(), "messages are being sent already");
                let (slots, messages, every_ns) = (*slots, *messages, *every_ns);
                let (base, from_ns) = (self.last_sent, now_ns());
                self.last_sent += messages.div_ceil(slots.max(1));
                self.publishing =
                    Some(Publishing { slots, messages, every_ns, from_ns, sent: 0, base });
                Ok(())
            }
            Order::Interrupt { away_ns, spread_ns } => {
                self.interrupt(net, *away_ns, *spread_ns);
                Ok(())
            }
            Order::Close => {
                for slot in &mut self.slots {
                    if let Some(conn) = slot.conn.take() {
                        net.close(conn);
                    }
                }
                self.slots = Vec::new();
                self.status.present = 0;
                Ok(())
            }
            _ => bail!("invalid order for members: {order:?}"),
        }
    }

    fn connected(&mut self, net: &mut Net, conn: ConnId, owner: u32) -> Result<()> {
        self.slots[owner as usize].stage = Stage::Upgrading;
        self.out.clear();
        put_upgrade(self.wire.path(), &mut self.out);
        if !net.send(conn, &self.out) {
            net.close(conn);
            self.failed(net, owner, |status| &mut status.reset);
        }
        Ok(())
    }

    fn bytes(&mut self, net: &mut Net, conn: ConnId, owner: u32, bytes: &[u8]) -> Result<usize> {
        if self.slots[owner as usize].stage == Stage::Upgrading {
            return self.upgraded(net, conn, owner, bytes);
        }
        let Some(frame) = message::frame(bytes) else { return Ok(0) };
        match frame.opcode {
            message::TEXT => {
                self.wire.read(frame.payload, |event| self.handle_event(net, conn, owner, event));
            }
            message::PING => {
                self.out.clear();
                message::put_client_frame(message::PONG, frame.payload, &mut self.out);
                net.send(conn, &self.out);
            }
            message::CLOSE => {
                net.close(conn);
                self.failed(net, owner, |status| &mut status.turned_away);
            }
            _ => {}
        }
        Ok(frame.len)
    }

    fn ended(&mut self, net: &mut Net, owner: u32, end: End) -> Result<()> {
        self.failed(net, owner, |status| end.counter(status));
        Ok(())
    }

    fn timer(&mut self, net: &mut Net, _due_ns: u64, key: u64) -> Result<()> {
        let (kind, index) = (key & (15 << 60), key as u32);
        let Some(slot) = self.slots.get(index as usize) else { return Ok(()) };
        if (key >> 32) as u16 != slot.attempt {
            return Ok(());
        }
        match (kind, slot.stage, slot.conn) {
            (RECONNECT, Stage::Away, _) => return self.connect(net, index),
            (TIMEOUT, Stage::Joined, _) => {}
            (TIMEOUT, _, Some(conn)) => {
                net.close(conn);
                self.failed(net, index, |status| &mut status.timed_out);
            }
            _ => {}
        }
        Ok(())
    }

    fn turned(&mut self, net: &mut Net, now_ns: u64) -> Result<u64> {
        self.fill_opening(net)?;
        Ok(self.publish(net, now_ns).unwrap_or(now_ns + TURN_NS))
    }

    fn status(&mut self) -> &mut Status {
        &mut self.status
    }
}

impl Members {
    fn fill_opening(&mut self, net: &mut Net) -> Result<()> {
        while self.started < self.slots.len() && self.opening < self.opening_max {
            self.started += 1;
            self.connect(net, self.started as u32 - 1)?;
        }
        Ok(())
    }

    /// Close all connections without a word, and connect again after a time, evenly spread.
    fn interrupt(&mut self, net: &mut Net, away_ns: u64, spread_ns: u64) {
        let (from_ns, count) = (now_ns() + away_ns, self.slots.len() as u64);
        for (slot, index) in self.slots.iter_mut().zip(0..) {
            let Some(conn) = slot.conn.take() else { continue };
            net.close(conn);
            match slot.stage {
                Stage::Joined => self.status.present -= 1,
                Stage::Away => {}
                _ => self.opening -= 1,
            }
            slot.stage = Stage::Away;
            let key = RECONNECT | u64::from(slot.attempt) << 32 | index;
            net.set_timer(from_ns + spread_ns * index / count, key);
        }
    }

    fn connect(&mut self, net: &mut Net, index: u32) -> Result<()> {
        let slot = &mut self.slots[index as usize];
        // Another machine than the last one, which may have ended.
        let choice = match slot.has_moved {
            true => net.other_server(index.wrapping_add(slot.tries.into())),
            false => 0,
        };
        let conn = net.connect(index, choice)?;
        self.opening += 1;
        slot.attempt = slot.attempt.wrapping_add(1);
        (slot.conn, slot.stage) = (Some(conn), Stage::Connecting);
        let key = TIMEOUT | u64::from(slot.attempt) << 32 | u64::from(index);
        net.set_timer(now_ns() + JOIN_TIMEOUT_NS, key);
        Ok(())
    }

    /// Count a failed connection, and retry like phoenix.js. A member that was joined goes to
    /// another machine.
    fn failed(&mut self, net: &mut Net, index: u32, count: impl Fn(&mut Status) -> &mut u64) {
        *count(&mut self.status) += 1;
        let have_started = self.started == self.slots.len();
        let slot = &mut self.slots[index as usize];
        match slot.stage {
            Stage::Joined => {
                self.status.present -= 1;
                slot.has_moved = true;
            }
            Stage::Away => {}
            _ => {
                self.opening -= 1;
                // Its machine may have ended while it was away.
                slot.has_moved |= have_started && slot.tries > 0;
            }
        }
        let step = RETRY_MILLIS[usize::from(slot.tries).min(RETRY_MILLIS.len() - 1)];
        (slot.conn, slot.stage, slot.tries) = (None, Stage::Away, slot.tries.saturating_add(1));
        self.status.retries += 1;
        let key = RECONNECT | u64::from(slot.attempt) << 32 | u64::from(index);
        net.set_timer(now_ns() + step * 1_000_000, key);
    }

    fn upgraded(&mut self, net: &mut Net, conn: ConnId, owner: u32, bytes: &[u8]) -> Result<usize> {
        let Some(response) = message::http_message(bytes) else { return Ok(0) };
        if !response.line.contains(" 101 ") {
            net.close(conn);
            self.failed(net, owner, |status| &mut status.turned_away);
            return Ok(response.len);
        }
        let accept = response.header("sec-websocket-accept");
        ensure!(accept == Some(WEBSOCKET_ACCEPT), "the upgrade has the wrong accept value");
        self.slots[owner as usize].stage = Stage::Greeting;
        if let Some(greeting) = self.wire.greeting() {
            self.send(net, conn, greeting);
        }
        if self.wire.joins_at_once() {
            self.handle_event(net, conn, owner, Event::Opened);
        }
        Ok(response.len)
    }

    /// A slot has the messages of its topic up to a position.
    fn see(&mut self, index: u32, position: Option<Position<'_>>) {
        let Some(Position { epoch, offset }) = position else { return };
        if self.seen.is_empty() {
            self.seen = vec![Seen::default(); self.slots.len()];
        }
        let seen = &mut self.seen[index as usize];
        if let Some(epoch) = epoch
            && *epoch != seen.epoch
        {
            epoch.clone_into(&mut seen.epoch);
        }
        seen.offset = offset;
    }

    fn handle_event(&mut self, net: &mut Net, conn: ConnId, owner: u32, event: Event<'_>) {
        let slot = &mut self.slots[owner as usize];
        match event {
            Event::Answer(text) => self.send(net, conn, text),
            Event::Opened if slot.stage == Stage::Greeting => {
                slot.stage = Stage::Joining;
                let seen = self.seen.get(owner as usize).filter(|seen| !seen.epoch.is_empty());
                let after = seen.map(|seen| (&*seen.epoch, seen.offset));
                let join = self.wire.join(&self.topic(owner), after);
                self.send(net, conn, &join);
            }
            Event::Joined { recovered, position } if slot.stage == Stage::Joining => {
                (slot.stage, slot.tries) = (Stage::Joined, 0);
                if recovered {
                    self.status.recovered += 1;
                } else {
                    slot.last_received = 0;
                    self.see(owner, position);
                }
                self.opening -= 1;
                self.status.present += 1;
                self.status.joins += 1;
                self.status.present_at_ns = now_ns();
            }
            Event::Message(number, position) => {
                self.status.received += 1;
                self.status.received_at_ns = now_ns();
                match number.checked_sub(slot.last_received) {
                    None | Some(0) => self.status.duplicates += 1,
                    Some(step) if slot.last_received != 0 => {
                        self.status.missed += u64::from(step - 1);
                    }
                    Some(_) => {}
                }
                slot.last_received = slot.last_received.max(number);
                self.see(owner, position);
            }
            Event::Other => {}
            Event::Opened | Event::Joined { .. } | Event::Wrong => self.status.wrong += 1,
        }
    }

    fn topic(&self, slot: u32) -> String {
        format!("{}{}", self.prefix, (self.first + slot) % self.topics)
    }

    /// Send the messages that are due; returns the time of the next one.
    fn publish(&mut self, net: &mut Net, now_ns: u64) -> Option<u64> {
        let mut publishing = self.publishing.take()?;
        while publishing.sent < publishing.messages {
            let due_ns = publishing.from_ns + u64::from(publishing.sent) * publishing.every_ns;
            if due_ns > now_ns {
                self.publishing = Some(publishing);
                return Some(due_ns);
            }
            let index = publishing.sent % publishing.slots;
            let number = publishing.base + 1 + publishing.sent / publishing.slots;
            publishing.sent += 1;
            if let Some(conn) = self.slots.get(index as usize).and_then(|slot| slot.conn) {
                let push = self.wire.push(&self.topic(index), number);
                self.send(net, conn, &push);
                self.status.sent += 1;
            }
        }
        None
    }

    fn send(&mut self, net: &mut Net, conn: ConnId, text: &str) {
        self.out.clear();
        message::put_client_text(text, &mut self.out);
        if !net.send(conn, &self.out) {
            self.status.wrong += 1;
        }
    }
}

impl Slot {
    fn new() -> Self {
        Slot {
            conn: None,
            stage: Stage::Away,
            tries: 0,
            attempt: 0,
            has_moved: false,
            last_received: 0,
        }
    }
}
