use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::Durations;
use super::net::{Clients, ConnId, End, Net};
use crate::message;
use crate::scale::clock::now_ns;
use crate::scale::orders::{Order, Status};
use watchfire_report::Snapshot;

/// Longest time between two turns.
const TURN_NS: u64 = 100_000_000;

/// Short requests, each on a new connection: a fixed number at a time, as fast as they are
/// answered.
#[derive(Default)]
pub struct Requests {
    request: String,
    until_ns: u64,
    /// Time at which the request of each slot began to connect.
    began_at_ns: Vec<u64>,
    status: Status,
    durations: Durations,
}

impl Clients for Requests {
    fn handle_order(&mut self, net: &mut Net, order: &Order) -> Result<()> {
        match order {
            Order::Request { path, at_once, until_ns } => {
                self.request =
                    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
                self.until_ns = *until_ns;
                self.began_at_ns = vec![0; *at_once as usize];
                for slot in 0..*at_once {
                    self.begin(net, slot)?;
                }
                Ok(())
            }
            Order::Close => Ok(()), // requests end by themselves
            _ => bail!("invalid order for requests: {order:?}"),
        }
    }

    fn connected(&mut self, net: &mut Net, conn: ConnId, _: u32) -> Result<()> {
        net.send(conn, self.request.as_bytes());
        Ok(())
    }

    fn bytes(&mut self, net: &mut Net, conn: ConnId, owner: u32, bytes: &[u8]) -> Result<usize> {
        let Some(response) = message::http_message(bytes) else { return Ok(0) };
        if response.line.contains(" 200 ") && response.body.starts_with(b"{") {
            self.status.requests += 1;
            let took = now_ns() - self.began_at_ns[owner as usize];
            self.durations.record("request", took);
        } else {
            self.status.wrong += 1;
        }
        let len = response.len;
        net.close(conn);
        self.begin(net, owner)?;
        Ok(len)
    }

    fn ended(&mut self, net: &mut Net, owner: u32, end: End) -> Result<()> {
        match end {
            End::Refused => self.status.refused += 1,
            End::Closed => self.status.turned_away += 1,
            End::Reset => self.status.reset += 1,
        }
        self.begin(net, owner)
    }

    fn timer(&mut self, _: &mut Net, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn turned(&mut self, _: &mut Net, now_ns: u64) -> Result<u64> {
        Ok(now_ns + TURN_NS)
    }

    fn status(&mut self) -> &mut Status {
        &mut self.status
    }

    fn take_durations(&mut self) -> BTreeMap<String, Snapshot> {
        self.durations.take()
    }
}

impl Requests {
    fn begin(&mut self, net: &mut Net, slot: u32) -> Result<()> {
        let now = now_ns();
        if now < self.until_ns {
            self.began_at_ns[slot as usize] = now;
            net.connect(slot, slot)?;
        }
        Ok(())
    }
}
