//! The baseline of long polls: what parked polls and throws of sprites cost in the kernel alone.
//!
//! Each process has one thread, one epoll and one listener on the same port. Every answer is the text of a
//! real one. A throw also answers the poll of this process that has waited longest, and its connection is
//! closed. There are no grids, no limits and no timeouts. A request must arrive in one read, and its answer
//! must fit in the socket; both hold on loopback.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use rustix::event::epoll::EventFlags;
use rustix::net::{SendFlags, send};
use socket2::Socket;

use crate::baseline::{self, Sockets, listen, print_ready};
use crate::limits::raise_open_files;
use crate::poller::Poller;

const READ_BYTES: usize = 4096;
const LISTENER: u64 = u64::MAX;
const JOINED: &str = r#"{"neighbours":{"down":"0035528a5c52ad9f","left":"0035528a5c52ad9f","right":"0035528a5c52ad9f","up":"0035528a5c52ad9f"},"peer":"00fc9cb2ecabf0ca","token":"APycsuyr8MoAABnVZd8b5X3dYhOccpgCN7k"}"#;
const ARRIVED: &str = r#"{"arrivals":[{"sprite":"1764510000123456789","edge":"left","at":0.5,"velocity":{"x":600.0,"y":-40.0},"from":"0035528a5c52ad9f"}],"neighbours":{"left":"0035528a5c52ad9f","right":"0035528a5c52ad9f","up":"0035528a5c52ad9f","down":"0035528a5c52ad9f"}}"#;

#[derive(clap::Args)]
pub struct Settings {
    /// Address to listen on; port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Processes with one thread each, all on the same port.
    #[arg(long, default_value_t = 1)]
    processes: usize,
    /// The process that has started this one, and that it ends with.
    #[arg(long, hide = true)]
    parent: Option<i32>,
}

/// Serves until killed. The first process prints an event with its URL.
pub fn serve(settings: &Settings) -> Result<Infallible> {
    settings.parent.map(baseline::end_with).transpose()?;
    ensure!(settings.processes > 0, "cannot serve with 0 processes; use at least 1");
    raise_open_files()?;
    let listener = listen(settings.listen)?;
    let address = listener.local_addr()?.as_socket().context("not an IP address")?;
    let arguments = ["bare-polls".to_owned(), "--listen".to_owned(), address.to_string()].to_vec();
    let others = std::iter::repeat_n(arguments, settings.processes - 1);
    let _others = baseline::start_processes(others)?;
    print_ready(address)?;
    Server::new(listener)?.run()
}

struct Server {
    poller: Poller,
    listener: Socket,
    sockets: Sockets,
    /// The sockets whose polls wait, with the longest wait first.
    parked: VecDeque<usize>,
    joined: Vec<u8>,
    arrived: Vec<u8>,
    thrown: Vec<u8>,
}

impl Server {
    fn new(listener: Socket) -> Result<Self> {
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER, EventFlags::IN)?;
        Ok(Server {
            poller,
            listener,
            sockets: Vec::new(),
            parked: VecDeque::new(),
            joined: answer("", JOINED),
            arrived: answer("", ARRIVED),
            thrown: answer("connection: close\r\n", "{}"),
        })
    }

    fn run(mut self) -> Result<Infallible> {
        let mut buffer = [0; READ_BYTES];
        loop {
            self.poller.wait()?;
            for index in 0..self.poller.len() {
                match self.poller.key(index) {
                    LISTENER => {
                        let Server { listener, poller, sockets, .. } = &mut self;
                        baseline::accept_all(listener, poller, sockets, |_| {})?;
                    }
                    slot => self.read(slot as usize, &mut buffer),
                }
            }
        }
    }

    fn read(&mut self, slot: usize, buffer: &mut [u8]) {
        let Some(Some(socket)) = self.sockets.get(slot) else { return };
        let Some(len) = baseline::read(socket, buffer) else { return };
        let stays = match Request::read(&buffer[..len]) {
            Request::Poll => {
                self.parked.push_back(slot);
                true
            }
            Request::Join => send(socket, &self.joined, SendFlags::NOSIGNAL).is_ok(),
            Request::Throw => {
                let _ = send(socket, &self.thrown, SendFlags::NOSIGNAL);
                let waiting = self.parked.pop_front();
                if let Some(Some(socket)) = waiting.and_then(|slot| self.sockets.get(slot)) {
                    let _ = send(socket, &self.arrived, SendFlags::NOSIGNAL);
                }
                false
            }
            Request::End => false,
        };
        if !stays {
            self.sockets[slot] = None;
        }
    }
}

#[derive(Debug, PartialEq)]
enum Request {
    Poll,
    Join,
    Throw,
    End,
}

impl Request {
    fn read(bytes: &[u8]) -> Request {
        let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
        match line {
            [] => Request::End,
            [b'G', ..] => Request::Poll,
            _ if line.windows(5).any(|part| part == b"/join") => Request::Join,
            _ => Request::Throw,
        }
    }
}

fn answer(header: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json; charset=utf-8\r\ncache-control: no-store\r\ncontent-length: {len}\r\n{header}\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_known_by_its_first_line() {
        let read =
            |line: &str| Request::read(format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        assert_eq!(read("POST /sprites/meadow/join"), Request::Join);
        assert_eq!(read("GET /sprites/meadow/poll?token=parked"), Request::Poll);
        assert_eq!(read("POST /sprites/meadow/throw"), Request::Throw);
        assert_eq!(Request::read(b""), Request::End);
    }
}
