//! The baseline of long polls: what parked polls and short requests cost in the kernel alone.
//!
//! Each process has one thread, one epoll and one listener on the same port. A join is answered with
//! fixed text, a poll waits forever, and any other request gets the same JSON, after which its
//! connection is closed. There are no grids, no limits and no timeouts. A request must arrive in one
//! read, and its answer must fit in the socket; both hold on loopback.

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
const JOINED: &str = r#"{"token":"parked","peer":"0000000000000000","neighbours":{}}"#;

#[derive(clap::Args)]
pub struct Settings {
    /// Address to listen on; port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Processes with one thread each, all on the same port.
    #[arg(long, default_value_t = 1)]
    processes: usize,
    /// Length of the JSON with which a short request is answered.
    #[arg(long, default_value_t = 2_750)]
    answer_bytes: usize,
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
    let (address_text, bytes) = (address.to_string(), settings.answer_bytes.to_string());
    let arguments = ["bare-polls", "--listen", &address_text, "--answer-bytes", &bytes];
    let arguments = arguments.map(str::to_owned).to_vec();
    let others = std::iter::repeat_n(arguments, settings.processes - 1);
    let _others = baseline::start_processes(others)?;
    print_ready(address)?;
    Server::new(listener, settings.answer_bytes)?.run()
}

struct Server {
    poller: Poller,
    listener: Socket,
    sockets: Sockets,
    joined: Vec<u8>,
    short: Vec<u8>,
}

impl Server {
    fn new(listener: Socket, answer_bytes: usize) -> Result<Self> {
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER, EventFlags::IN)?;
        let short = format!(r#"{{"limits":"{}"}}"#, "w".repeat(answer_bytes.saturating_sub(13)));
        let (joined, short) = (answer(JOINED, ""), answer(&short, "connection: close\r\n"));
        Ok(Server { poller, listener, sockets: Vec::new(), joined, short })
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
            Request::Poll => true,
            Request::Join => send(socket, &self.joined, SendFlags::NOSIGNAL).is_ok(),
            Request::Short => {
                let _ = send(socket, &self.short, SendFlags::NOSIGNAL);
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
    Short,
    End,
}

impl Request {
    fn read(bytes: &[u8]) -> Request {
        let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
        match line {
            [] => Request::End,
            [b'P', ..] => Request::Join,
            _ if line.windows(6).any(|part| part == b"/poll?") => Request::Poll,
            _ => Request::Short,
        }
    }
}

fn answer(body: &str, header: &str) -> Vec<u8> {
    let len = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{header}content-length: {len}\r\n\r\n{body}"
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
        assert_eq!(read("GET /limits"), Request::Short);
        assert_eq!(Request::read(b""), Request::End);
    }
}
