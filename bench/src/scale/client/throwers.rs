use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::Durations;
use super::net::{ConnId, End, Net, Part};
use crate::message;
use crate::scale::clock::now_ns;
use crate::scale::orders::{Order, Status};
use watchfire_report::Snapshot;
use watchfire_types::Rng;

const GRID: &str = "meadow";
const EDGES: [&str; 4] = ["left", "right", "up", "down"];
/// Throws of one process that are under way; more wait, and their wait is measured.
const THROWING_MAX: usize = 1_000;
const RETRY_NS: u64 = 100_000_000;
const TURN_NS: u64 = 100_000_000;

/// Owners of connections from here on are throws, below it seats.
const THROW: u32 = 1 << 31;
/// What a timer is for: its upper bits. The lower 32 are the seat.
const AGAIN: u64 = 1 << 60;
const FLY: u64 = 2 << 60;
/// Below them, how often throwing was ordered: what was due before is not thrown after.
const ORDER_BITS: u32 = 32;

/// Windows on a grid of sprites: each holds a place by a poll, and throws what comes.
#[derive(Default)]
pub struct Throwers {
    seats: Vec<Seat>,
    begun: usize,
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

struct Seat {
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

/// A sprite that is due, when there are enough under way.
#[derive(Clone, Copy)]
struct Waiting {
    seat: u32,
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

impl Part for Throwers {
    fn order(&mut self, net: &mut Net, order: &Order) -> Result<()> {
        match *order {
            Order::Join { count, opening_max } => {
                ensure!(self.seats.is_empty(), "there are windows already");
                self.opening_max = opening_max as usize;
                self.rng = Some(Rng::from_seed(u64::from(net.process())));
                let seat = || Seat { stage: Stage::Away, token: "".into() };
                self.seats = std::iter::repeat_with(seat).take(count as usize).collect();
                self.fill_opening(net)
            }
            Order::Throw { every_ns, until_ns } => {
                (self.every_ns, self.until_ns) = (every_ns, until_ns);
                self.orders += 1;
                let (now, count) = (now_ns(), self.seats.len() as u64);
                for seat in 0..count {
                    let share = u128::from(every_ns) * u128::from(seat) / u128::from(count);
                    self.fly(net, now + share as u64, seat as u32);
                }
                Ok(())
            }
            Order::Close => Ok(()), // the process ends, and its connections with it
            _ => bail!("throwers cannot do that"),
        }
    }

    fn connected(&mut self, net: &mut Net, conn: ConnId, owner: u32) -> Result<()> {
        let sent = match owner.checked_sub(THROW) {
            Some(throw) => net.send(conn, self.throw_request(throw as usize).as_bytes()),
            None => net.send(conn, join_request(&self.seats[owner as usize].token).as_bytes()),
        };
        if !sent {
            net.close(conn);
            self.ended(net, owner, End::Reset)?;
        }
        Ok(())
    }

    fn bytes(&mut self, net: &mut Net, conn: ConnId, owner: u32, bytes: &[u8]) -> Result<usize> {
        let Some(answer) = message::http_message(bytes) else { return Ok(0) };
        let is_ok = answer.line.contains(" 200 ");
        match owner.checked_sub(THROW) {
            Some(throw) => {
                net.close(conn);
                self.thrown(net, throw, is_ok.then_some(answer.body))?;
            }
            None if is_ok => self.polled(net, conn, owner, answer.body)?,
            None => {
                // Nothing else is promised to one who polls in time: count it, and join again.
                self.status.wrong += 1;
                net.close(conn);
                self.leave_seat(net, owner);
            }
        }
        Ok(answer.len)
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
                self.leave_seat(net, owner);
                Ok(())
            }
        }
    }

    fn timer(&mut self, net: &mut Net, due_ns: u64, key: u64) -> Result<()> {
        let seat = key as u32;
        if key & FLY == 0 {
            self.opening += 1;
            self.seats[seat as usize].stage = Stage::Joining;
            net.connect(seat, seat)?;
        } else if due_ns < self.until_ns && (key >> ORDER_BITS) as u16 == self.orders {
            self.waiting.push_back(Waiting { seat, due_ns });
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

    fn take_report(&mut self) -> BTreeMap<String, Snapshot> {
        self.durations.take()
    }
}

impl Throwers {
    fn fill_opening(&mut self, net: &mut Net) -> Result<()> {
        while self.begun < self.seats.len() && self.opening < self.opening_max {
            let seat = self.begun as u32;
            self.begun += 1;
            self.opening += 1;
            self.seats[seat as usize].stage = Stage::Joining;
            net.connect(seat, seat)?;
        }
        Ok(())
    }

    /// Throw a sprite of this seat then.
    fn fly(&self, net: &mut Net, at_ns: u64, seat: u32) {
        net.set_timer(at_ns, FLY | u64::from(self.orders) << ORDER_BITS | u64::from(seat));
    }

    fn leave_seat(&mut self, net: &mut Net, seat: u32) {
        match self.seats[seat as usize].stage {
            Stage::Parked => self.status.present -= 1,
            Stage::Joining => self.opening -= 1,
            Stage::Away => {}
        }
        self.seats[seat as usize].stage = Stage::Away;
        self.status.retries += 1;
        net.set_timer(now_ns() + RETRY_NS, AGAIN | u64::from(seat));
    }

    /// The answer to a join or to a poll; either way the next poll follows.
    fn polled(&mut self, net: &mut Net, conn: ConnId, owner: u32, body: &[u8]) -> Result<()> {
        let now = now_ns();
        let seat = &mut self.seats[owner as usize];
        if seat.stage == Stage::Joining {
            let joined: Joined<'_> = serde_json::from_slice(body).context("not a join's answer")?;
            (seat.stage, seat.token) = (Stage::Parked, joined.token.into());
            self.opening -= 1;
            self.status.present += 1;
            self.status.joins += 1;
            self.status.present_at_ns = now;
        } else {
            let polled: Polled<'_> = serde_json::from_slice(body).context("not a poll's answer")?;
            for arrival in polled.arrivals {
                self.status.arrivals += 1;
                let thrown_at = arrival.sprite.rsplit(' ').next().and_then(|at| at.parse().ok());
                let thrown_at: u64 = thrown_at.context("an arrival that nobody threw")?;
                self.durations.record("flight", now.saturating_sub(thrown_at));
                self.fly(net, now + self.every_ns, owner);
            }
        }
        self.status.polls += 1;
        let token = &self.seats[owner as usize].token;
        let poll =
            format!("GET /sprites/{GRID}/poll?token={token} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        if !net.send(conn, poll.as_bytes()) {
            net.close(conn);
            self.status.reset += 1;
            self.leave_seat(net, owner);
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
            net.connect(THROW + throw, waiting.seat)?;
        }
        Ok(())
    }

    fn throw_request(&mut self, throw: usize) -> String {
        let Waiting { seat, due_ns } = self.throws[throw];
        let edge = self.rng.as_mut().map_or(0, |rng| rng.index(4));
        let body = format!(
            r#"{{"token":"{}","sprite":"kite {due_ns}","edge":"{}","at":0.5,"velocity":{{"x":600,"y":-40}}}}"#,
            self.seats[seat as usize].token, EDGES[edge]
        );
        format!(
            "POST /sprites/{GRID}/throw HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// A throw was answered, or not: then the sprite is still its thrower's.
    fn thrown(&mut self, net: &mut Net, throw: u32, answer: Option<&[u8]>) -> Result<()> {
        let Waiting { seat, due_ns } = self.throws[throw as usize];
        self.free.push(throw);
        let now = now_ns();
        let stays = match answer {
            Some(body) => {
                let thrown: Thrown = serde_json::from_slice(body).context("not an answer")?;
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
            self.fly(net, now + self.every_ns, seat);
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
