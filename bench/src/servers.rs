use std::fmt;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::client::Transport;
use crate::log::log_tail;
use crate::parent_death_guard::{GuardedChild, guarded_command};
use crate::process::Watched;

const READY_TIMEOUT: Duration = Duration::from_secs(20);
const READY_PAUSE: Duration = Duration::from_millis(20);

/// A server that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Server {
    /// The baseline, with one thread.
    Bare1,
    /// Watchfire with one shard.
    Watchfire1,
    /// The baseline, with one thread per core.
    BareN,
    /// Watchfire with default settings: one shard per core.
    WatchfireN,
    /// The example `chat`: the same server with presence. Each socket joins three topics and is
    /// tracked in one.
    ThreeTopics,
    /// npm's `ws`, `send(text)` to each.
    WsPlain,
    /// npm's `ws`, frame built once.
    WsOnce,
    /// npm's `socket.io`, a room.
    SocketIo,
}

impl Server {
    /// Its name on the command line and in JSON.
    pub fn key(self) -> String {
        let value = self.to_possible_value().expect("no server is hidden");
        value.get_name().to_owned()
    }

    pub fn is_watchfire(self) -> bool {
        matches!(self, Server::Watchfire1 | Server::WatchfireN | Server::ThreeTopics)
    }

    /// Whether it is an npm package.
    pub fn needs_npm(self) -> bool {
        matches!(self, Server::WsPlain | Server::WsOnce | Server::SocketIo)
    }

    /// The protocol of its websockets, and the topics they join.
    pub fn transport(self) -> Transport {
        match self {
            Server::ThreeTopics => Transport::ThreeTopics,
            Server::SocketIo => Transport::SocketIo,
            _ => Transport::Websocket,
        }
    }

    /// Whether it answers heartbeats; Socket.IO's server pings instead.
    pub fn answers_heartbeats(self) -> bool {
        self != Server::SocketIo
    }

    /// Whether its long polls are measured.
    pub fn parks_polls(self) -> bool {
        self != Server::ThreeTopics && !self.needs_npm()
    }

    /// The baseline with the same number of threads.
    pub fn baseline(self) -> Option<Server> {
        match self {
            Server::Watchfire1 => Some(Server::Bare1),
            Server::WatchfireN | Server::ThreeTopics => Some(Server::BareN),
            _ => None,
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Server::Bare1 => "bare epoll, 1 thread",
            Server::BareN => "bare epoll, a thread a core",
            Server::Watchfire1 => "Watchfire, 1 shard",
            Server::WatchfireN => "Watchfire, a shard a core",
            Server::ThreeTopics => "Watchfire, 3 topics + presence",
            Server::WsPlain => "ws 8.23, plain",
            Server::WsOnce => "ws 8.23, frame built once",
            Server::SocketIo => "Socket.IO 4.8, a room",
        })
    }
}

/// The paths of the servers and of their logs.
pub struct ServerPaths {
    pub watchfire: PathBuf,
    pub chat: PathBuf,
    pub peers: PathBuf,
    pub logs: PathBuf,
    pub cores: usize,
}

/// A running server; it ends when this is dropped.
pub struct Running {
    process: GuardedChild,
    address: SocketAddr,
    log: PathBuf,
}

impl Running {
    /// Start a server and wait until it accepts connections.
    pub fn start(server: Server, paths: &ServerPaths) -> Result<Self> {
        let address = free_address()?;
        let log = paths.logs.join(format!("{}.log", server.key()));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = command(server, address, paths)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let process = GuardedChild::spawn(&mut command)?;
        let mut running = Running { process, address, log };
        running.wait_until_ready()?;
        Ok(running)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn watched(&self) -> Watched {
        Watched::new(self.process.id())
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let started_at = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.process.child().try_wait()? {
                bail!("the server ended with {status}{}", self.log_tail());
            }
            if started_at.elapsed() > READY_TIMEOUT {
                bail!(
                    "the server accepts no connections after {READY_TIMEOUT:?}{}",
                    self.log_tail()
                );
            }
            thread::sleep(READY_PAUSE);
        }
        Ok(())
    }

    /// The last lines of its log, to append to an error.
    pub fn log_tail(&self) -> String {
        log_tail(&self.log)
    }
}

/// A port that is free now. If another program takes it first, the server fails to start.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn command(server: Server, address: SocketAddr, paths: &ServerPaths) -> Result<Command> {
    let bare = |threads: usize| -> Result<Command> {
        let mut command = guarded_command(std::env::current_exe()?)?;
        command.args(["bare", "--listen", &address.to_string(), "--threads"]);
        command.arg(threads.to_string());
        Ok(command)
    };
    let watchfire = || -> Result<Command> {
        let mut command = guarded_command(&paths.watchfire)?;
        command.args(["serve", "--listen", &address.to_string()]);
        command.args(["--set", "channels.open_rooms=true", "--set", "admin.listen=[]"]);
        Ok(command)
    };
    let chat = || -> Result<Command> {
        let mut command = guarded_command(&paths.chat)?;
        command.arg(address.port().to_string());
        Ok(command)
    };
    let node = |program: &str, modes: &[&str]| -> Result<Command> {
        let mut command = guarded_command("node")?;
        command.arg(paths.peers.join(program)).arg(address.port().to_string()).args(modes);
        Ok(command)
    };
    match server {
        Server::Bare1 => bare(1),
        Server::BareN => bare(paths.cores),
        Server::Watchfire1 => {
            let mut command = watchfire()?;
            command.args(["--set", "server.shards=1"]);
            Ok(command)
        }
        Server::WatchfireN => watchfire(),
        Server::ThreeTopics => chat(),
        Server::WsPlain => node("ws.mjs", &["plain"]),
        Server::WsOnce => node("ws.mjs", &["once"]),
        Server::SocketIo => node("socket.io.mjs", &[]),
    }
}

/// Install the npm packages of the compared servers, if they are missing.
pub fn install_peers(peers: &Path) -> Result<()> {
    let is_there = |name| peers.join("node_modules").join(name).join("package.json").exists();
    if ["ws", "socket.io"].into_iter().all(is_there) {
        return Ok(());
    }
    let mut install = Command::new("npm");
    install.args(["ci", "--no-audit", "--no-fund"]).current_dir(peers);
    let output = install.output().context("cannot run npm")?;
    if !output.status.success() {
        bail!("npm ci failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_the_installed_versions() {
        let manifest = include_str!("../peers/package.json");
        let manifest: serde_json::Value = serde_json::from_str(manifest).unwrap();
        for (server, name, package) in [
            (Server::WsPlain, "ws", "ws"),
            (Server::WsOnce, "ws", "ws"),
            (Server::SocketIo, "Socket.IO", "socket.io"),
        ] {
            let version = manifest["dependencies"][package].as_str().unwrap();
            let (major_minor, _) = version.rsplit_once('.').unwrap();
            let called = server.to_string();
            assert!(called.starts_with(&format!("{name} {major_minor},")), "{called}, {version}");
        }
    }
}
