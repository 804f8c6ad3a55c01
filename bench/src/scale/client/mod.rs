//! The processes that hold the clients. Each is one thread with one epoll; it does what its stdin
//! says and tells on its stdout what it sees.

mod net;
mod requests;
mod sockets;
mod throwers;
mod visitors;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::epoll::EventFlags;
use serde::Serialize;

use self::net::{Net, Part};
use super::clock::now_ns;
use super::orders::{Kind, Line, Order, Status};
use crate::limits;
use watchfire_report::{Histogram, Snapshot};

const STDIN: u64 = u64::MAX;
/// How often a process tells what it sees.
const STATUS_EVERY_NS: u64 = 200_000_000;
const READ_BYTES: usize = 65_536;

/// Be a process of clients until stdin ends.
pub fn obey(kind: Kind) -> Result<()> {
    limits::raise_open_files()?;
    let obeyed = match kind {
        Kind::Sockets => run(&mut sockets::Sockets::default()),
        Kind::Throwers => run(&mut throwers::Throwers::default()),
        Kind::Requests => run(&mut requests::Requests::default()),
        Kind::Visitors => run(&mut visitors::Visitors::default()),
    };
    match obeyed {
        Ok(()) => Ok(()),
        Err(error) => tell(&Line::Failed(format!("{error:#}"))),
    }
}

fn run(part: &mut impl Part) -> Result<()> {
    let mut net = Net::new()?;
    net.poller().add(io::stdin(), STDIN, EventFlags::IN)?;
    let (mut text, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
    let (mut told, mut tell_at) = (Status::default(), now_ns());
    let mut wake_at = now_ns();
    loop {
        let until = wake_at.min(tell_at).min(net.next_timer().unwrap_or(u64::MAX));
        for index in 0..net.wait(until)? {
            let ready = net.ready(index);
            if ready.key != STDIN {
                net.serve(part, ready)?;
                continue;
            }
            let len = rustix::io::read(io::stdin(), &mut buffer)?;
            if len == 0 {
                return Ok(());
            }
            text.extend_from_slice(&buffer[..len]);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                obey_line(part, &mut net, &line)?;
            }
        }
        let now = now_ns();
        while let Some((due, key)) = net.take_timer(now) {
            part.timer(&mut net, due, key)?;
        }
        wake_at = part.turned(&mut net, now)?;
        if now >= tell_at {
            tell_at = now + STATUS_EVERY_NS;
            if told != *part.status() {
                told = part.status().clone();
                tell(&Line::Status(Box::new(told.clone())))?;
            }
        }
    }
}

fn obey_line(part: &mut impl Part, net: &mut Net, line: &[u8]) -> Result<()> {
    match serde_json::from_slice(line).context("an order that nobody understands")? {
        Order::Setup(setup) => net.set_up(setup.servers, setup.process),
        Order::Report => {
            tell(&Line::Status(Box::new(part.status().clone())))?;
            tell(&Line::Report(part.take_report()))?;
        }
        order => part.order(net, &order)?,
    }
    Ok(())
}

fn tell(line: &impl Serialize) -> Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, line)?;
    writeln!(stdout)?;
    Ok(stdout.flush()?)
}

/// Durations by what they are of: few kinds, and a record is made for every message.
#[derive(Default)]
struct Durations(Vec<(&'static str, Histogram)>);

impl Durations {
    fn record(&mut self, what: &'static str, nanos: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == what) {
            Some((_, histogram)) => histogram.record(Duration::from_nanos(nanos)),
            None => {
                self.0.push((what, Histogram::default()));
                self.record(what, nanos);
            }
        }
    }

    fn take(&mut self) -> BTreeMap<String, Snapshot> {
        let taken = self.0.drain(..);
        taken.map(|(what, histogram)| (what.to_owned(), histogram.snapshot())).collect()
    }
}
