//! The parts that both baselines share: processes on one port, and sockets by descriptor number.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use socket2::{Domain, Socket, Type};

use crate::poller::Poller;

const BACKLOG: i32 = 4096;

/// A listener on a port that other threads and processes listen on too.
pub fn listen(address: SocketAddr) -> Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?; // accepted sockets inherit it
    socket.bind(&address.into()).with_context(|| format!("cannot listen on {address}"))?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Starts one process of this program for each list of arguments, and waits until all listen.
pub fn start_processes(all: impl Iterator<Item = Vec<String>>) -> Result<Vec<Child>> {
    let parent = std::process::id().to_string();
    let mut processes = Vec::new();
    for arguments in all {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).args(["--parent", &parent]).stdout(Stdio::piped());
        processes.push(command.spawn()?);
    }
    for process in &mut processes {
        let output = process.stdout.take().context("a child has an output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(!line.is_empty(), "cannot start a process of the server; its error is above");
    }
    Ok(processes)
}

/// Lets the kernel kill this process when its parent ends, however that ends.
pub fn end_with(parent: i32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before this call.
    let is_running = getppid().map(Pid::as_raw_pid) == Some(parent);
    ensure!(is_running, "the parent process has ended");
    Ok(())
}

/// Prints the event that an experiment awaits from its server.
pub fn print_ready(address: SocketAddr) -> Result<()> {
    println!(r#"{{"event":"ready","url":"ws://{address}"}}"#);
    Ok(std::io::stdout().flush()?)
}

/// Sockets by descriptor number, which is their key at the poller.
pub type Sockets = Vec<Option<OwnedFd>>;

/// Accepts every connection that waits, and passes the descriptor number of each to `accepted`.
pub fn accept_all(
    listener: &Socket,
    poller: &Poller,
    sockets: &mut Sockets,
    mut accepted: impl FnMut(usize),
) -> Result<()> {
    loop {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = match accept_with(listener, flags) {
            Ok(socket) => socket,
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::CONNABORTED | Errno::INTR) => continue,
            Err(error) => return Err(error).context("cannot accept a connection"),
        };
        let slot = socket.as_raw_fd() as usize;
        poller.add(&socket, slot as u64, EventFlags::IN)?;
        if slot >= sockets.len() {
            sockets.resize_with(slot + 1, || None);
        }
        sockets[slot] = Some(socket);
        accepted(slot);
    }
}

/// Reads what has arrived. 0 bytes: the connection has ended. `None`: there is nothing yet.
pub fn read(socket: &OwnedFd, buffer: &mut [u8]) -> Option<usize> {
    match recv(socket, buffer, RecvFlags::empty()) {
        Ok((len, _)) => Some(len),
        Err(Errno::AGAIN | Errno::INTR) => None,
        Err(_) => Some(0),
    }
}
