//! The client processes. Each is one thread with one epoll. It executes the orders from stdin, and
//! reports its status on stdout.

mod members;
mod net;
mod upgrade;
mod wire;

use std::io::{self, Write};

use anyhow::{Context, Result};
use rustix::event::epoll::EventFlags;
use serde::Serialize;

use self::net::{Clients, Net};
use super::clock::now_ns;
use super::orders::{Line, Order, Status};
use crate::limits;

const STDIN: u64 = u64::MAX;
const STATUS_EVERY_NS: u64 = 200_000_000;
const READ_BYTES: usize = 65_536;

/// Run a client process until stdin ends.
pub fn run() -> Result<()> {
    limits::raise_open_files()?;
    match run_clients(&mut members::Members::default()) {
        Ok(()) => Ok(()),
        Err(error) => write_line(&Line::Failed(format!("{error:#}"))),
    }
}

fn run_clients(clients: &mut impl Clients) -> Result<()> {
    let mut net = Net::new()?;
    net.poller().add(io::stdin(), STDIN, EventFlags::IN)?;
    let (mut text, mut buffer) = (Vec::new(), vec![0; READ_BYTES]);
    let (mut reported, mut report_at) = (Status::default(), now_ns());
    let mut wake_at = now_ns();
    loop {
        let until = wake_at.min(report_at).min(net.next_timer().unwrap_or(u64::MAX));
        for index in 0..net.wait(until)? {
            let ready = net.ready(index);
            if ready.key != STDIN {
                net.serve(clients, ready)?;
                continue;
            }
            let len = rustix::io::read(io::stdin(), &mut buffer)?;
            if len == 0 {
                return Ok(());
            }
            text.extend_from_slice(&buffer[..len]);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                handle_line(clients, &mut net, &line)?;
            }
        }
        let now = now_ns();
        while let Some((due, key)) = net.take_timer(now) {
            clients.timer(&mut net, due, key)?;
        }
        wake_at = clients.turned(&mut net, now)?;
        if now >= report_at {
            report_at = now + STATUS_EVERY_NS;
            if reported != *clients.status() {
                reported = clients.status().clone();
                write_line(&Line::Status(Box::new(reported.clone())))?;
            }
        }
    }
}

fn handle_line(clients: &mut impl Clients, net: &mut Net, line: &[u8]) -> Result<()> {
    match serde_json::from_slice(line).context("invalid order")? {
        Order::Setup(setup) => net.set_up(setup.servers, setup.process),
        order => clients.handle_order(net, &order)?,
    }
    Ok(())
}

fn write_line(line: &impl Serialize) -> Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, line)?;
    writeln!(stdout)?;
    Ok(stdout.flush()?)
}
