use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::Durations;
use super::net::{Clients, ConnId, End, Net};
use crate::message;
use crate::scale::clock::now_ns;
use crate::scale::orders::{Order, Status};
use watchfire_report::Snapshot;
use watchfire_types::Rng;

const GRID: &str = "meadow";
const EDGES: [&str; 4] = ["left", "right", "up", "down"];
/// Most throws in progress of one process. Further throws wait, and their wait is measured.
const THROWING_MAX: usize = 1_000;
const RETRY_NS: u64 = 100_000_000;
const TURN_NS: u64 = 100_000_000;

/// Connection owners from this number on are throws; those below are slots.
const THROW: u32 = 1 << 31;
/// The upper bits of a timer's key are its purpose; the lower 32 bits are the slot.
const REJOIN: u64 = 1 << 60;
const THROW_DUE: u64 = 2 << 60;
/// Position of the number of `Throw` orders in a key: a new order cancels the timers of the last
/// one.
const ORDER_BITS: u32 = 32;

/// Clients on a grid of sprites: each keeps its slot by polling, and throws arriving sprites on.
#[derive(Default)]
pub struct Throwers {
    slots: Vec<Slot>,
    started: usize,
    opening: usize,
    opening_max: usize,
    every_ns: u64,
    until_ns: u64,
    orders: u16,
    throws: Vec<Throw>,
    free: Vec<u32>,
    waiting: VecDeque<Waiting>,
    rng: Option<Rng>,
    status: Status,
    durations: Durations,
}

struct Slot {
    stage: Stage,
    /// Empty before the first join.
    token: Box<str>,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Away,
    Joining,
    Parked,
}

/// A due throw that waits while [`THROWING_MAX`] throws are in progress.
#[derive(Clone, Copy)]
struct Waiting {
    slot: u32,
    due_ns: u64,
}

type Throw = Waiting;

#[derive(Deserialize)]
struct Joined<'a> {
    #[serde(borrow)]
    token: &'a str,
}

#[derive(Deserialize)]
struct Polled<'a> {
    #[serde(borrow)]
    arrivals: Vec<Arrival<'a>>,
}

#[derive(Deserialize)]
struct Arrival<'a> {
    #[serde(borrow)]
    sprite: &'a str,
}

#[derive(Deserialize)]
struct Thrown {
    #[serde(default)]
    wrapped: bool,
}

impl Clients for Throwers {
    fn handle_order(&mut self, net: &mut Net, order: &Order) -> Result<()> {
        match *order {
            Order::Join { count, opening_max } => {
                ensure!(self.slots.is_empty(), "there are clients already");
                self.opening_max = opening_max as usize;
                self.rng = Some(Rng::from_seed(u64::from(net.process())));
                let slot = || Slot { stage: Stage::Away, token: "".into() };
                self.slots = std::iter::repeat_with(slot).take(count as usize).collect();
                self.fill_opening(net)
            }
            Order::Throw { every_ns, until_ns } => {
                (self.every_ns, self.until_ns) = (every_ns, until_ns);
                self.orders += 1;
                let (now, count) = (now_ns(), self.slots.len() as u64);
                for slot in 0..count {
                    let share = u128::from(every_ns) * u128::from(slot) / u128::from(count);
                    self.schedule_throw(net, now + share as u64, slot as u32);
                }
                Ok(())
            }
            Order::Close => Ok(()), // the connections end with the process
            _ => bail!("invalid order for throwers: {order:?}"),
        }
    }

    fn connected(&mut self, net: &mut Net, conn: ConnId, owner: u32) -> Result<()> {
        let sent = match owner.checked_sub(THROW) {
            Some(throw) => net.send(conn, self.throw_request(throw as usize).as_bytes()),
            None => net.send(conn, join_request(&self.slots[owner as usize].token).as_bytes()),
        };
        if !sent {
            net.close(conn);
            self.ended(net, owner, End::Reset)?;
        }
        Ok(())
    }

    fn bytes(&mut self, net: &mut Net, conn: ConnId, owner: u32, bytes: &[u8]) -> Result<usize> {
        let Some(response) = message::http_message(bytes) else { return Ok(0) };
        let is_ok = response.line.contains(" 200 ");
        match owner.checked_sub(THROW) {
            Some(throw) => {
                net.close(conn);
                self.thrown(net, throw, is_ok.then_some(response.body))?;
            }
            None if is_ok => self.polled(net, conn, owner, response.body)?,
            None => {
                // A client that polls in time must not receive an error: count it, and join again.
                self.status.wrong += 1;
                net.close(conn);
                self.leave_slot(net, owner);
            }
        }
        Ok(response.len)
    }

    fn ended(&mut self, net: &mut Net, owner: u32, end: End) -> Result<()> {
        match end {
            End::Refused => self.status.refused += 1,
            End::Closed => self.status.turned_away += 1,
            End::Reset => self.status.reset += 1,
        }
        match owner.checked_sub(THROW) {
            Some(throw) => self.thrown(net, throw, None),
            None => {
                self.leave_slot(net, owner);
                Ok(())
            }
        }
    }

    fn timer(&mut self, net: &mut Net, due_ns: u64, key: u64) -> Result<()> {
        let slot = key as u32;
        if key & THROW_DUE == 0 {
            self.opening += 1;
            self.slots[slot as usize].stage = Stage::Joining;
            net.connect(slot, slot)?;
        } else if due_ns < self.until_ns && (key >> ORDER_BITS) as u16 == self.orders {
            self.waiting.push_back(Waiting { slot, due_ns });
            self.fill_throwing(net)?;
        }
        Ok(())
    }

    fn turned(&mut self, net: &mut Net, now_ns: u64) -> Result<u64> {
        self.fill_opening(net)?;
        Ok(now_ns + TURN_NS)
    }

    fn status(&mut self) -> &mut Status {
        &mut self.status
    }

    fn take_durations(&mut self) -> BTreeMap<String, Snapshot> {
        self.durations.take()
    }
}

impl Throwers {
    fn fill_opening(&mut self, net: &mut Net) -> Result<()> {
        while self.started < self.slots.len() && self.opening < self.opening_max {
            let slot = self.started as u32;
            self.started += 1;
            self.opening += 1;
            self.slots[slot as usize].stage = Stage::Joining;
            net.connect(slot, slot)?;
        }
        Ok(())
    }

    /// Set the timer for a throw of this slot.
    fn schedule_throw(&self, net: &mut Net, at_ns: u64, slot: u32) {
        net.set_timer(at_ns, THROW_DUE | u64::from(self.orders) << ORDER_BITS | u64::from(slot));
    }

    fn leave_slot(&mut self, net: &mut Net, slot: u32) {
        match self.slots[slot as usize].stage {
            Stage::Parked => self.status.present -= 1,
            Stage::Joining => self.opening -= 1,
            Stage::Away => {}
        }
        self.slots[slot as usize].stage = Stage::Away;
        self.status.retries += 1;
        net.set_timer(now_ns() + RETRY_NS, REJOIN | u64::from(slot));
    }

    /// Handle the response to a join or a poll, and send the next poll.
    fn polled(&mut self, net: &mut Net, conn: ConnId, owner: u32, body: &[u8]) -> Result<()> {
        let now = now_ns();
        let slot = &mut self.slots[owner as usize];
        if slot.stage == Stage::Joining {
            let joined: Joined<'_> =
                serde_json::from_slice(body).context("invalid response to a join")?;
            (slot.stage, slot.token) = (Stage::Parked, joined.token.into());
            self.opening -= 1;
            self.status.present += 1;
            self.status.joins += 1;
            self.status.present_at_ns = now;
        } else {
            let polled: Polled<'_> =
                serde_json::from_slice(body).context("invalid response to a poll")?;
            for arrival in polled.arrivals {
                self.status.arrivals += 1;
                let thrown_at = arrival.sprite.rsplit(' ').next().and_then(|at| at.parse().ok());
                let thrown_at: u64 = thrown_at.context("invalid name of an arriving sprite")?;
                self.durations.record("flight", now.saturating_sub(thrown_at));
                self.schedule_throw(net, now + self.every_ns, owner);
            }
        }
        self.status.polls += 1;
        let token = &self.slots[owner as usize].token;
        let poll =
            format!("GET /sprites/{GRID}/poll?token={token} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        if !net.send(conn, poll.as_bytes()) {
            net.close(conn);
            self.status.reset += 1;
            self.leave_slot(net, owner);
        }
        Ok(())
    }

    fn fill_throwing(&mut self, net: &mut Net) -> Result<()> {
        while self.throws.len() - self.free.len() < THROWING_MAX {
            let Some(waiting) = self.waiting.pop_front() else { break };
            let throw = match self.free.pop() {
                Some(throw) => {
                    self.throws[throw as usize] = waiting;
                    throw
                }
                None => {
                    self.throws.push(waiting);
                    self.throws.len() as u32 - 1
                }
            };
            net.connect(THROW + throw, waiting.slot)?;
        }
        Ok(())
    }

    fn throw_request(&mut self, throw: usize) -> String {
        let Waiting { slot, due_ns } = self.throws[throw];
        let edge = self.rng.as_mut().map_or(0, |rng| rng.index(4));
        let body = format!(
            r#"{{"token":"{}","sprite":"kite {due_ns}","edge":"{}","at":0.5,"velocity":{{"x":600,"y":-40}}}}"#,
            self.slots[slot as usize].token, EDGES[edge]
        );
        format!(
            "POST /sprites/{GRID}/throw HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// Handle the response to a throw. Without one, the sprite stays with its thrower.
    fn thrown(&mut self, net: &mut Net, throw: u32, response: Option<&[u8]>) -> Result<()> {
        let Waiting { slot, due_ns } = self.throws[throw as usize];
        self.free.push(throw);
        let now = now_ns();
        let stays = match response {
            Some(body) => {
                let thrown: Thrown =
                    serde_json::from_slice(body).context("invalid response to a throw")?;
                self.status.throws += 1;
                self.status.wrapped += u64::from(thrown.wrapped);
                self.durations.record("throw", now.saturating_sub(due_ns));
                thrown.wrapped
            }
            None => {
                self.status.wrong += 1;
                true
            }
        };
        if stays {
            self.schedule_throw(net, now + self.every_ns, slot);
        }
        self.fill_throwing(net)
    }
}

fn join_request(token: &str) -> String {
    let body = if token.is_empty() { String::new() } else { format!(r#"{{"token":"{token}"}}"#) };
    format!(
        "POST /sprites/{GRID}/join HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
