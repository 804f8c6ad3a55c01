use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, bail, ensure};

use super::Durations;
use super::net::{Clients, ConnId, End, Net};
use crate::message::{self, WEBSOCKET_ACCEPT, WEBSOCKET_KEY};
use crate::scale::clock::now_ns;
use crate::scale::orders::{Order, Status, Wire};
use watchfire_report::Snapshot;
use watchfire_types::Rng;

/// The heartbeat interval of phoenix.js.
const HEARTBEAT_EVERY_NS: u64 = 30_000_000_000;
/// Interval of turns, so that heartbeats are spread evenly over time.
const HEARTBEAT_TURN_NS: u64 = 20_000_000;
/// Retry delays of phoenix.js in milliseconds, after the first failure, the second, and so on.
pub const RETRY_MILLIS: [u64; 10] = [10, 50, 100, 150, 200, 250, 500, 1000, 2000, 5000];
/// The timeout of phoenix.js for a connection and a join.
pub const JOIN_TIMEOUT_NS: u64 = 10_000_000_000;
const FRAME_BYTES: usize = 100;

/// Websockets, each joined to one room.
#[derive(Default)]
pub struct Sockets {
    slots: Vec<Slot>,
    /// The index of the first slot among the slots of all processes.
    first: u32,
    rooms: u32,
    /// Slots that have started to connect for the first time.
    started: usize,
    /// Most sockets that connect or join at the same time.
    opening_max: usize,
    opening: usize,
    is_jittered: bool,
    rng: Option<Rng>,
    /// `None` while no heartbeats are sent.
    heartbeat: Option<Heartbeats>,
    chatter: Chatter,
    out: Vec<u8>,
    status: Status,
    durations: Durations,
    /// Time at which all sockets were closed, to measure how long each was away.
    storm_at_ns: Option<u64>,
}

#[derive(Clone, Copy)]
struct Slot {
    conn: Option<ConnId>,
    stage: Stage,
    /// Failures since it was last joined.
    tries: u16,
    /// Distinguishes the timers of this attempt from those of earlier ones.
    attempt: u16,
    /// The number of the last received message.
    last_received: u32,
}

const _: () = assert!(size_of::<Slot>() <= 20);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Away,
    Connecting,
    Upgrading,
    Joining,
    Joined,
}

/// The heartbeats of all slots in turns.
struct Heartbeats {
    cursor: usize,
    first_at_ns: u64,
    sent: u64,
}

impl Heartbeats {
    fn from(first_at_ns: u64) -> Self {
        Heartbeats { cursor: 0, first_at_ns, sent: 0 }
    }
}

#[derive(Default)]
struct Chatter {
    every_ns: u64,
    until_ns: u64,
}

/// The upper bits of a timer's key are its purpose; the lower 32 bits are the slot.
const RECONNECT: u64 = 1 << 60;
const TIMEOUT: u64 = 2 << 60;
const SEND: u64 = 3 << 60;

impl Clients for Sockets {
    fn handle_order(&mut self, net: &mut Net, order: &Order) -> Result<()> {
        match *order {
            Order::Open { first, count, rooms, opening_max, heartbeats } => {
                ensure!(self.slots.is_empty(), "there are sockets already");
                (self.first, self.rooms) = (first, rooms.max(1));
                self.opening_max = opening_max as usize;
                self.rng = Some(Rng::from_seed(u64::from(first)));
                // The first heartbeat is due one interval after the join.
                let first_at_ns = now_ns() + HEARTBEAT_EVERY_NS;
                self.heartbeat = heartbeats.then(|| Heartbeats::from(first_at_ns));
                self.slots = vec![Slot::new(); count as usize];
                self.fill_opening(net)
            }
            Order::Heartbeats => {
                self.heartbeat = Some(Heartbeats::from(now_ns()));
                Ok(())
            }
            Order::Send { slot, number } => {
                self.send(net, slot as usize, number, now_ns());
                Ok(())
            }
            Order::Chatter { every_ns, from_ns, until_ns } => {
                self.chatter = Chatter { every_ns, until_ns };
                for slot in 0..self.slots.len() as u32 {
                    let at = self.first + slot;
                    if at < self.rooms {
                        let share = u128::from(every_ns) * u128::from(at) / u128::from(self.rooms);
                        net.set_timer(from_ns + share as u64, SEND | u64::from(slot));
                    }
                }
                Ok(())
            }
            Order::Storm { spread_ns, is_jittered } => {
                self.storm(net, spread_ns, is_jittered);
                Ok(())
            }
            Order::Close => {
                for slot in &mut self.slots {
                    if let Some(conn) = slot.conn.take() {
                        net.close(conn);
                    }
                }
                self.slots = Vec::new();
                self.started = 0;
                self.status.present = 0;
                Ok(())
            }
            _ => bail!("invalid order for sockets: {order:?}"),
        }
    }

    fn connected(&mut self, net: &mut Net, conn: ConnId, owner: u32) -> Result<()> {
        self.slots[owner as usize].stage = Stage::Upgrading;
        self.out.clear();
        put_upgrade(Wire::Phoenix.path(), &mut self.out);
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
            message::TEXT => self.receive_text(owner, frame.payload),
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

    fn timer(&mut self, net: &mut Net, due_ns: u64, key: u64) -> Result<()> {
        let (kind, index) = (key & (15 << 60), key as u32);
        let Some(slot) = self.slots.get(index as usize) else { return Ok(()) };
        let is_current = (key >> 32) as u16 == slot.attempt;
        match kind {
            RECONNECT if is_current && slot.stage == Stage::Away => self.connect(net, index),
            TIMEOUT if is_current && slot.stage != Stage::Joined => {
                if let Some(conn) = slot.conn {
                    net.close(conn);
                    self.failed(net, index, |status| &mut status.timed_out);
                }
                Ok(())
            }
            SEND => {
                self.send_next(net, index, due_ns);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn turned(&mut self, net: &mut Net, now_ns: u64) -> Result<u64> {
        self.fill_opening(net)?;
        self.send_heartbeats(net, now_ns);
        Ok(now_ns + HEARTBEAT_TURN_NS)
    }

    fn status(&mut self) -> &mut Status {
        &mut self.status
    }

    fn take_durations(&mut self) -> BTreeMap<String, Snapshot> {
        self.durations.take()
    }
}

impl Sockets {
    fn fill_opening(&mut self, net: &mut Net) -> Result<()> {
        while self.started < self.slots.len() && self.opening < self.opening_max {
            self.started += 1;
            self.connect(net, self.started as u32 - 1)?;
        }
        Ok(())
    }

    fn connect(&mut self, net: &mut Net, index: u32) -> Result<()> {
        let conn = net.connect(index, self.first + index)?;
        self.opening += 1;
        let slot = &mut self.slots[index as usize];
        slot.attempt = slot.attempt.wrapping_add(1);
        (slot.conn, slot.stage) = (Some(conn), Stage::Connecting);
        if self.storm_at_ns.is_some() || slot.tries > 0 {
            let key = TIMEOUT | u64::from(slot.attempt) << 32 | u64::from(index);
            net.set_timer(now_ns() + JOIN_TIMEOUT_NS, key);
        }
        Ok(())
    }

    /// Count a failed connection, and retry like phoenix.js.
    fn failed(&mut self, net: &mut Net, index: u32, count: impl Fn(&mut Status) -> &mut u64) {
        *count(&mut self.status) += 1;
        let slot = &mut self.slots[index as usize];
        match slot.stage {
            Stage::Joined => self.status.present -= 1,
            Stage::Away => {}
            _ => self.opening -= 1,
        }
        let step = RETRY_MILLIS[usize::from(slot.tries).min(RETRY_MILLIS.len() - 1)];
        (slot.conn, slot.stage, slot.tries) = (None, Stage::Away, slot.tries.saturating_add(1));
        self.status.retries += 1;
        let factor = match &mut self.rng {
            Some(rng) if self.is_jittered => 0.5 + rng.fraction(),
            _ => 1.0,
        };
        let wait = (step as f64 * factor * 1e6) as u64;
        let key = RECONNECT | u64::from(slot.attempt) << 32 | u64::from(index);
        net.set_timer(now_ns() + wait, key);
    }

    fn storm(&mut self, net: &mut Net, spread_ns: u64, is_jittered: bool) {
        self.is_jittered = is_jittered;
        net.next_network();
        for slot in &mut self.slots {
            if let Some(conn) = slot.conn.take() {
                net.close(conn);
            }
            (slot.stage, slot.tries) = (Stage::Away, 0);
            slot.attempt = slot.attempt.wrapping_add(1);
        }
        (self.opening, self.status.present) = (0, 0);
        let now = now_ns();
        self.storm_at_ns = Some(now);
        let rng = self.rng.get_or_insert_with(|| Rng::from_seed(0));
        for (index, slot) in self.slots.iter().enumerate() {
            let wait = RETRY_MILLIS[0] * 1_000_000 + (rng.fraction() * spread_ns as f64) as u64;
            net.set_timer(now + wait, RECONNECT | u64::from(slot.attempt) << 32 | index as u64);
        }
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
        self.out.clear();
        let join = format!(r#"["1","1","{}","phx_join",{{}}]"#, self.topic(owner));
        message::put_client_frame(message::TEXT, join.as_bytes(), &mut self.out);
        net.send(conn, &self.out);
        self.slots[owner as usize].stage = Stage::Joining;
        Ok(response.len)
    }

    fn topic(&self, slot: u32) -> String {
        match self.rooms {
            1 => message::TOPIC.to_owned(),
            rooms => format!("rooms:r{}", (self.first + slot) % rooms),
        }
    }

    fn receive_text(&mut self, owner: u32, text: &[u8]) {
        let slot = &mut self.slots[owner as usize];
        if text.starts_with(br#"[null,null,"#) {
            let Some((number, sent_at)) = parse_broadcast(text) else { return };
            let now = now_ns();
            self.status.received_at_ns = now;
            if number == slot.last_received {
                self.status.duplicates += 1;
                return;
            }
            if slot.last_received != 0 {
                self.status.missed += u64::from(number.saturating_sub(slot.last_received + 1));
            }
            slot.last_received = number;
            self.status.received += 1;
            self.durations.record("delivery", now.saturating_sub(sent_at));
        } else if text.starts_with(br#"["1","1","#) && slot.stage == Stage::Joining {
            if !contains(text, br#""status":"ok""#) {
                self.status.wrong += 1;
                return;
            }
            (slot.stage, slot.tries, slot.last_received) = (Stage::Joined, 0, 0);
            self.opening -= 1;
            self.status.present += 1;
            self.status.joins += 1;
            let now = now_ns();
            self.status.present_at_ns = now;
            if let Some(at) = self.storm_at_ns {
                self.durations.record("away", now - at);
            }
        } else if contains(text, br#""status":"error""#) || contains(text, br#""phx_error""#) {
            self.status.wrong += 1;
        }
    }

    fn send(&mut self, net: &mut Net, index: usize, number: u32, due_ns: u64) {
        let Some(conn) = self.slots.get(index).and_then(|slot| slot.conn) else { return };
        let push = broadcast_frame(&self.topic(index as u32), number, due_ns).replacen(
            "null,null",
            r#""1","3""#,
            1,
        );
        self.out.clear();
        message::put_client_frame(message::TEXT, push.as_bytes(), &mut self.out);
        if net.send(conn, &self.out) {
            self.status.sent += 1;
        }
    }

    /// Send the next message to a room, and schedule the one after it.
    fn send_next(&mut self, net: &mut Net, index: u32, due_ns: u64) {
        if due_ns >= self.chatter.until_ns {
            return;
        }
        let number = self.slots[index as usize].last_received + 1;
        self.send(net, index as usize, number, due_ns);
        net.set_timer(due_ns + self.chatter.every_ns, SEND | u64::from(index));
    }

    /// Send all due heartbeats: one for each slot in every interval.
    fn send_heartbeats(&mut self, net: &mut Net, now_ns: u64) {
        let Some(beats) = &mut self.heartbeat else { return };
        if self.slots.is_empty() || now_ns < beats.first_at_ns {
            return;
        }
        let since = u128::from(now_ns - beats.first_at_ns);
        let due = since * self.slots.len() as u128 / u128::from(HEARTBEAT_EVERY_NS);
        self.out.clear();
        message::put_client_frame(message::TEXT, message::HEARTBEAT.as_bytes(), &mut self.out);
        while u128::from(beats.sent) < due {
            let slot = &self.slots[beats.cursor];
            if let (Some(conn), Stage::Joined) = (slot.conn, slot.stage) {
                net.send(conn, &self.out);
                self.status.heartbeats += 1;
            }
            beats.sent += 1;
            beats.cursor = (beats.cursor + 1) % self.slots.len();
        }
    }
}

impl Slot {
    fn new() -> Self {
        Slot { conn: None, stage: Stage::Away, tries: 0, attempt: 0, last_received: 0 }
    }
}

/// The upgrade request of a websocket.
pub fn put_upgrade(path: &str, out: &mut Vec<u8>) {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: {WEBSOCKET_KEY}\r\n\r\n"
    );
    out.extend_from_slice(request.as_bytes());
}

/// A broadcast frame, padded to [`FRAME_BYTES`].
fn broadcast_frame(topic: &str, number: u32, sent_at_ns: u64) -> String {
    let mut text = format!(r#"[null,null,"{topic}","new_msg",{{"body":"{number} {sent_at_ns} "#);
    while text.len() + 3 < FRAME_BYTES {
        text.push('w');
    }
    write!(text, r#""}}]"#).expect("writing to a string cannot fail");
    text
}

/// The number of a broadcast, and the time at which it was sent.
fn parse_broadcast(text: &[u8]) -> Option<(u32, u64)> {
    let body = br#""body":""#;
    let at = text.windows(body.len()).position(|window| window == body)? + body.len();
    let mut words = text.get(at..)?.split(|byte| *byte == b' ');
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u64>().ok();
    Some((u32::try_from(number(words.next()?)?).ok()?, number(words.next()?)?))
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broadcast_is_a_hundred_bytes_with_its_number_and_time() {
        let text = broadcast_frame("rooms:lobby", 7, 123_456_789_012);
        assert_eq!(text.len(), FRAME_BYTES);
        assert_eq!(parse_broadcast(text.as_bytes()), Some((7, 123_456_789_012)));
        assert_eq!(parse_broadcast(b"[null,null,\"site\",\"visitors\",{\"visitors\":1}]"), None);
    }
}
