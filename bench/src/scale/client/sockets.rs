use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, bail, ensure};

use super::Durations;
use super::net::{ConnId, End, Net, Part};
use crate::message::{self, WEBSOCKET_ACCEPT, WEBSOCKET_KEY};
use crate::scale::clock::now_ns;
use crate::scale::orders::{Order, Status};
use watchfire_report::Snapshot;
use watchfire_types::Rng;

/// As often as phoenix.js does.
const HEARTBEAT_EVERY_NS: u64 = 30_000_000_000;
/// Heartbeats are sent in this many portions, so that they never come as a flood.
const HEARTBEAT_TURN_NS: u64 = 20_000_000;
/// When phoenix.js tries again, in milliseconds: after the first failure, the second, and so on.
const RETRY_MILLIS: [u64; 10] = [10, 50, 100, 150, 200, 250, 500, 1000, 2000, 5000];
/// phoenix.js gives a connection and a join so long.
const JOIN_TIMEOUT_NS: u64 = 10_000_000_000;
/// A broadcast frame of this many bytes, whatever is said.
const FRAME_BYTES: usize = 100;

/// Websockets, each joined to one room.
#[derive(Default)]
pub struct Sockets {
    seats: Vec<Seat>,
    /// The place of the first seat among the seats of all processes.
    first: u32,
    rooms: u32,
    /// Seats that began to connect the first time, and how many may be on their way.
    begun: usize,
    opening_max: usize,
    opening: usize,
    is_jittered: bool,
    rng: Option<Rng>,
    /// Absent while none are to be sent.
    heartbeat: Option<Heartbeats>,
    chatter: Chatter,
    out: Vec<u8>,
    status: Status,
    durations: Durations,
    /// When all went, to measure how long each was away.
    storm_at_ns: Option<u64>,
}

#[derive(Clone, Copy)]
struct Seat {
    conn: Option<ConnId>,
    stage: Stage,
    /// Failures since it was last joined.
    tries: u16,
    /// Tells the timers of this attempt from those of earlier ones.
    attempt: u16,
    /// The number of the last message heard.
    heard: u32,
}

const _: () = assert!(size_of::<Seat>() <= 20);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Away,
    Connecting,
    Upgrading,
    Joining,
    Joined,
}

/// Whose turn it is to send a heartbeat.
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

/// What a timer is for: its upper bits. The lower 32 are the seat.
const RETURN: u64 = 1 << 60;
const PATIENCE: u64 = 2 << 60;
const SPEAK: u64 = 3 << 60;

impl Part for Sockets {
    fn order(&mut self, net: &mut Net, order: &Order) -> Result<()> {
        match *order {
            Order::Open { first, count, rooms, opening_max, heartbeats } => {
                ensure!(self.seats.is_empty(), "there are sockets already");
                (self.first, self.rooms) = (first, rooms.max(1));
                self.opening_max = opening_max as usize;
                self.rng = Some(Rng::from_seed(u64::from(first)));
                // The first is due a period after the join.
                let first_at_ns = now_ns() + HEARTBEAT_EVERY_NS;
                self.heartbeat = heartbeats.then(|| Heartbeats::from(first_at_ns));
                self.seats = vec![Seat::new(); count as usize];
                self.fill_opening(net)
            }
            Order::Heartbeats => {
                self.heartbeat = Some(Heartbeats::from(now_ns()));
                Ok(())
            }
            Order::Say { seat, number } => {
                self.say(net, seat as usize, number, now_ns());
                Ok(())
            }
            Order::Chatter { every_ns, from_ns, until_ns } => {
                self.chatter = Chatter { every_ns, until_ns };
                for seat in 0..self.seats.len() as u32 {
                    let at = self.first + seat;
                    if at < self.rooms {
                        let share = u128::from(every_ns) * u128::from(at) / u128::from(self.rooms);
                        net.set_timer(from_ns + share as u64, SPEAK | u64::from(seat));
                    }
                }
                Ok(())
            }
            Order::Storm { spread_ns, is_jittered } => {
                self.storm(net, spread_ns, is_jittered);
                Ok(())
            }
            Order::Close => {
                for seat in &mut self.seats {
                    if let Some(conn) = seat.conn.take() {
                        net.close(conn);
                    }
                }
                self.seats = Vec::new();
                self.begun = 0;
                self.status.present = 0;
                Ok(())
            }
            _ => bail!("sockets cannot do that"),
        }
    }

    fn connected(&mut self, net: &mut Net, conn: ConnId, owner: u32) -> Result<()> {
        self.seats[owner as usize].stage = Stage::Upgrading;
        self.out.clear();
        put_upgrade(&mut self.out);
        if !net.send(conn, &self.out) {
            net.close(conn);
            self.failed(net, owner, |status| &mut status.reset);
        }
        Ok(())
    }

    fn bytes(&mut self, net: &mut Net, conn: ConnId, owner: u32, bytes: &[u8]) -> Result<usize> {
        if self.seats[owner as usize].stage == Stage::Upgrading {
            return self.upgraded(net, conn, owner, bytes);
        }
        let Some(frame) = message::frame(bytes) else { return Ok(0) };
        match frame.opcode {
            message::TEXT => self.heard(owner, frame.payload),
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
        self.failed(net, owner, |status| match end {
            End::Refused => &mut status.refused,
            End::Closed => &mut status.turned_away,
            End::Reset => &mut status.reset,
        });
        Ok(())
    }

    fn timer(&mut self, net: &mut Net, due_ns: u64, key: u64) -> Result<()> {
        let (kind, index) = (key & (15 << 60), key as u32);
        let Some(seat) = self.seats.get(index as usize) else { return Ok(()) };
        let is_of_this_attempt = (key >> 32) as u16 == seat.attempt;
        match kind {
            RETURN if is_of_this_attempt && seat.stage == Stage::Away => self.connect(net, index),
            PATIENCE if is_of_this_attempt && seat.stage != Stage::Joined => {
                if let Some(conn) = seat.conn {
                    net.close(conn);
                    self.failed(net, index, |status| &mut status.timed_out);
                }
                Ok(())
            }
            SPEAK => {
                self.speak(net, index, due_ns);
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

    fn take_report(&mut self) -> BTreeMap<String, Snapshot> {
        self.durations.take()
    }
}

impl Sockets {
    fn fill_opening(&mut self, net: &mut Net) -> Result<()> {
        while self.begun < self.seats.len() && self.opening < self.opening_max {
            self.begun += 1;
            self.connect(net, self.begun as u32 - 1)?;
        }
        Ok(())
    }

    fn connect(&mut self, net: &mut Net, index: u32) -> Result<()> {
        let conn = net.connect(index, self.first + index)?;
        self.opening += 1;
        let seat = &mut self.seats[index as usize];
        seat.attempt = seat.attempt.wrapping_add(1);
        (seat.conn, seat.stage) = (Some(conn), Stage::Connecting);
        if self.storm_at_ns.is_some() || seat.tries > 0 {
            let key = PATIENCE | u64::from(seat.attempt) << 32 | u64::from(index);
            net.set_timer(now_ns() + JOIN_TIMEOUT_NS, key);
        }
        Ok(())
    }

    /// The connection is closed: count it, and come again as phoenix.js does.
    fn failed(&mut self, net: &mut Net, index: u32, count: impl Fn(&mut Status) -> &mut u64) {
        *count(&mut self.status) += 1;
        let seat = &mut self.seats[index as usize];
        match seat.stage {
            Stage::Joined => self.status.present -= 1,
            Stage::Away => {}
            _ => self.opening -= 1,
        }
        let step = RETRY_MILLIS[usize::from(seat.tries).min(RETRY_MILLIS.len() - 1)];
        (seat.conn, seat.stage, seat.tries) = (None, Stage::Away, seat.tries.saturating_add(1));
        self.status.retries += 1;
        let factor = match &mut self.rng {
            Some(rng) if self.is_jittered => 0.5 + rng.fraction(),
            _ => 1.0,
        };
        let wait = (step as f64 * factor * 1e6) as u64;
        let key = RETURN | u64::from(seat.attempt) << 32 | u64::from(index);
        net.set_timer(now_ns() + wait, key);
    }

    fn storm(&mut self, net: &mut Net, spread_ns: u64, is_jittered: bool) {
        self.is_jittered = is_jittered;
        net.next_network();
        for seat in &mut self.seats {
            if let Some(conn) = seat.conn.take() {
                net.close(conn);
            }
            (seat.stage, seat.tries) = (Stage::Away, 0);
            seat.attempt = seat.attempt.wrapping_add(1);
        }
        (self.opening, self.status.present) = (0, 0);
        let now = now_ns();
        self.storm_at_ns = Some(now);
        let rng = self.rng.get_or_insert_with(|| Rng::from_seed(0));
        for (index, seat) in self.seats.iter().enumerate() {
            let wait = RETRY_MILLIS[0] * 1_000_000 + (rng.fraction() * spread_ns as f64) as u64;
            net.set_timer(now + wait, RETURN | u64::from(seat.attempt) << 32 | index as u64);
        }
    }

    fn upgraded(&mut self, net: &mut Net, conn: ConnId, owner: u32, bytes: &[u8]) -> Result<usize> {
        let Some(answer) = message::http_message(bytes) else { return Ok(0) };
        if !answer.line.contains(" 101 ") {
            net.close(conn);
            self.failed(net, owner, |status| &mut status.turned_away);
            return Ok(answer.len);
        }
        let accept = answer.header("sec-websocket-accept");
        ensure!(accept == Some(WEBSOCKET_ACCEPT), "the upgrade has the wrong accept value");
        self.out.clear();
        let join = format!(r#"["1","1","{}","phx_join",{{}}]"#, self.topic(owner));
        message::put_client_frame(message::TEXT, join.as_bytes(), &mut self.out);
        net.send(conn, &self.out);
        self.seats[owner as usize].stage = Stage::Joining;
        Ok(answer.len)
    }

    fn topic(&self, seat: u32) -> String {
        match self.rooms {
            1 => message::TOPIC.to_owned(),
            rooms => format!("rooms:r{}", (self.first + seat) % rooms),
        }
    }

    fn heard(&mut self, owner: u32, text: &[u8]) {
        let seat = &mut self.seats[owner as usize];
        if text.starts_with(br#"[null,null,"#) {
            let Some((number, said_at)) = understand(text) else { return };
            let now = now_ns();
            self.status.heard_at_ns = now;
            if number == seat.heard {
                self.status.doubled += 1;
                return;
            }
            if seat.heard != 0 {
                self.status.missed += u64::from(number.saturating_sub(seat.heard + 1));
            }
            seat.heard = number;
            self.status.heard += 1;
            self.durations.record("delivery", now.saturating_sub(said_at));
        } else if text.starts_with(br#"["1","1","#) && seat.stage == Stage::Joining {
            if !contains(text, br#""status":"ok""#) {
                self.status.wrong += 1;
                return;
            }
            (seat.stage, seat.tries, seat.heard) = (Stage::Joined, 0, 0);
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

    fn say(&mut self, net: &mut Net, index: usize, number: u32, due_ns: u64) {
        let Some(conn) = self.seats.get(index).and_then(|seat| seat.conn) else { return };
        let push = broadcast_frame(&self.topic(index as u32), number, due_ns).replacen(
            "null,null",
            r#""1","3""#,
            1,
        );
        self.out.clear();
        message::put_client_frame(message::TEXT, push.as_bytes(), &mut self.out);
        if net.send(conn, &self.out) {
            self.status.said += 1;
        }
    }

    /// A room's speaker says something, and will again.
    fn speak(&mut self, net: &mut Net, index: u32, due_ns: u64) {
        if due_ns >= self.chatter.until_ns {
            return;
        }
        let number = self.seats[index as usize].heard + 1;
        self.say(net, index as usize, number, due_ns);
        net.set_timer(due_ns + self.chatter.every_ns, SPEAK | u64::from(index));
    }

    /// As many as are due, so that each seat has sent one in every period.
    fn send_heartbeats(&mut self, net: &mut Net, now_ns: u64) {
        let Some(beats) = &mut self.heartbeat else { return };
        if self.seats.is_empty() || now_ns < beats.first_at_ns {
            return;
        }
        let since = u128::from(now_ns - beats.first_at_ns);
        let due = since * self.seats.len() as u128 / u128::from(HEARTBEAT_EVERY_NS);
        self.out.clear();
        message::put_client_frame(message::TEXT, message::HEARTBEAT.as_bytes(), &mut self.out);
        while u128::from(beats.sent) < due {
            let seat = &self.seats[beats.cursor];
            if let (Some(conn), Stage::Joined) = (seat.conn, seat.stage) {
                net.send(conn, &self.out);
                self.status.heartbeats += 1;
            }
            beats.sent += 1;
            beats.cursor = (beats.cursor + 1) % self.seats.len();
        }
    }
}

impl Seat {
    fn new() -> Self {
        Seat { conn: None, stage: Stage::Away, tries: 0, attempt: 0, heard: 0 }
    }
}

/// The request that begins a websocket.
pub fn put_upgrade(out: &mut Vec<u8>) {
    let request = format!(
        "GET /socket/websocket?vsn=2.0.0 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: {WEBSOCKET_KEY}\r\n\r\n"
    );
    out.extend_from_slice(request.as_bytes());
}

/// A broadcast as its receivers get it, padded to its size.
fn broadcast_frame(topic: &str, number: u32, said_at_ns: u64) -> String {
    let mut text = format!(r#"[null,null,"{topic}","new_msg",{{"body":"{number} {said_at_ns} "#);
    while text.len() + 3 < FRAME_BYTES {
        text.push('w');
    }
    write!(text, r#""}}]"#).expect("a string takes all");
    text
}

/// The number of a broadcast and when it was said.
fn understand(text: &[u8]) -> Option<(u32, u64)> {
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
    fn a_broadcast_is_a_hundred_bytes_and_tells_its_number_and_time() {
        let text = broadcast_frame("rooms:lobby", 7, 123_456_789_012);
        assert_eq!(text.len(), FRAME_BYTES);
        assert_eq!(understand(text.as_bytes()), Some((7, 123_456_789_012)));
        assert_eq!(understand(b"[null,null,\"site\",\"visitors\",{\"visitors\":1}]"), None);
    }
}
