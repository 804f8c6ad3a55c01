//! Real kubo, isolated from the public network.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::content::Content;
use super::contract::{
    Node, Program, START_TIMEOUT, STOP_TIMEOUT, Started, Status, Ticket, Totals, multiaddrs,
};
use crate::drivers::driver::{check_settings, choice};
use crate::drivers::processes::host::{NodeError, Process, Site, run_to_end};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const PORT: u16 = 4001;
const API_PORT: u16 = 5001;
const GATEWAY_PORT: u16 = 8080;
const REPOSITORY: &str = "repository";
/// Options of `ipfs add` with which a file has the blocks that `watchfire share` makes.
const IMPORT: &[&str] =
    &["--cid-version=1", "--raw-leaves", "--chunker=size-1048576", "--max-file-links=1024"];

pub struct Kubo {
    program: PathBuf,
    /// Blocks as `ipfs add` makes them without options.
    has_small_blocks: bool,
}

impl Kubo {
    pub fn new(program: PathBuf, settings: &BTreeMap<String, String>) -> Result<Self, String> {
        check_settings(settings.keys(), &["blocks"])?;
        let has_small_blocks = choice(settings, "blocks", &["large", "small"])? == Some("small");
        Ok(Kubo { program, has_small_blocks })
    }

    fn command(&self, repository: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.env("IPFS_PATH", repository).env("IPFS_TELEMETRY", "off");
        command.env("GOLOG_LOG_LEVEL", "error").env("DO_NOT_TRACK", "1");
        command
    }

    /// An empty repository with an identity of its own.
    fn repository(&self, site: &Site) -> Result<PathBuf, NodeError> {
        let repository = site.folder.join(REPOSITORY);
        let mut init = self.command(&repository);
        run(init.args(["init", "--empty-repo", "--profile=test"]))?;
        let file = repository.join("config");
        let text = fs::read_to_string(&file).map_err(NodeError::file(&file))?;
        let mut config: Value = serde_json::from_str(&text).map_err(|error| {
            NodeError::Unexpected { program: "kubo".to_owned(), problem: error.to_string() }
        })?;
        isolate(&mut config, site.address);
        fs::write(&file, config.to_string()).map_err(NodeError::file(&file))?;
        Ok(repository)
    }

    /// Adds content to a repository.
    fn add(&self, repository: &Path, contents: &[Content]) -> Result<Vec<Ticket>, NodeError> {
        let add = |(object, content): (usize, &Content)| {
            let mut add = self.command(repository);
            add.args(["add", "-Q", "-r"]);
            if !self.has_small_blocks {
                add.args(IMPORT);
            }
            let name = run(add.arg(&content.path))?;
            Ok(Ticket { object, name, bytes: content.bytes })
        };
        contents.iter().enumerate().map(add).collect()
    }

    /// Starts kubo, which can be used after [`Node::wait_until_ready`].
    fn daemon(&self, site: &Site, repository: &Path) -> Result<Daemon, NodeError> {
        let mut command = self.command(repository);
        command.args(["daemon", "--migrate=false"]);
        Ok(Daemon {
            process: Process::start(site, command, "kubo")?,
            site: site.clone(),
            id: String::new(),
            tickets: Vec::new(),
            wanted: Vec::new(),
            pins: None,
            pinned: 0,
        })
    }
}

impl Program for Kubo {
    fn seed(&self, site: &Site, contents: &[Content]) -> Started {
        let repository = self.repository(site)?;
        let tickets = self.add(&repository, contents)?;
        let mut daemon = self.daemon(site, &repository)?;
        daemon.tickets = tickets;
        daemon.wait_until_ready(START_TIMEOUT)?;
        Ok(Box::new(daemon))
    }

    fn store(&self, site: &Site, contents: &[Content]) -> Result<Vec<Ticket>, NodeError> {
        self.add(&self.repository(site)?, contents)
    }

    fn prepare(&self, site: &Site, tickets: &[Ticket], stored: &[Ticket]) -> Started {
        let repository = match stored.is_empty() {
            true => self.repository(site)?,
            false => site.folder.join(REPOSITORY),
        };
        let mut daemon = self.daemon(site, &repository)?;
        daemon.wanted = tickets.to_vec();
        Ok(Box::new(daemon))
    }
}

/// Turns off every connection except those that the lab makes.
fn isolate(config: &mut Value, address: Ipv4Addr) {
    let at = |port: u16| format!("/ip4/{address}/tcp/{port}");
    for (pointer, value) in [
        ("/Addresses/Swarm", json!([at(PORT)])),
        ("/Addresses/API", json!(at(API_PORT))),
        ("/Addresses/Gateway", json!(at(GATEWAY_PORT))),
        ("/Bootstrap", json!([])),
        ("/Routing/Type", json!("none")),
        ("/Discovery/MDNS/Enabled", json!(false)),
        ("/Swarm/DisableNatPortMap", json!(true)),
        ("/Swarm/RelayClient/Enabled", json!(false)),
        ("/Swarm/RelayService/Enabled", json!(false)),
        ("/Swarm/Transports/Network/Relay", json!(false)),
        ("/AutoConf/Enabled", json!(false)),
        ("/Provide/Enabled", json!(false)),
        ("/HTTPRetrieval/Enabled", json!(false)),
        // kubo asks all peers with addresses of a local network for a block, and of the others only those that
        // have sent one before. Nodes on the wire have public addresses, so without a content router no node
        // would ask another first.
        ("/Internal/Bitswap/BroadcastControl/Enable", json!(false)),
    ] {
        let parts = pointer.trim_start_matches('/').split('/');
        let slot = parts.fold(&mut *config, |object, part| &mut object[part]);
        *slot = value;
    }
}

fn run(command: &mut Command) -> Result<String, NodeError> {
    Ok(String::from_utf8_lossy(&run_to_end(command)?).trim().to_owned())
}

/// A running kubo.
struct Daemon {
    process: Process,
    site: Site,
    id: String,
    tickets: Vec<Ticket>,
    wanted: Vec<Ticket>,
    pins: Option<Receiver<Result<(), NodeError>>>,
    pinned: usize,
}

/// Sends a request to the HTTP API of a kubo, and waits for the whole response.
fn request(site: &Site, path: &str) -> Result<Value, NodeError> {
    let unexpected =
        |problem: String| NodeError::Unexpected { program: format!("kubo ({path})"), problem };
    let response = || {
        let mut stream = site.connect(API_PORT, CONNECT_TIMEOUT)?;
        let at = site.address;
        // A response to HTTP/1.0 is not chunked, and ends with the connection.
        write!(stream, "POST /api/v0/{path} HTTP/1.0\r\nHost: {at}:{API_PORT}\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        Ok(response)
    };
    let response: String =
        response().map_err(|error: std::io::Error| unexpected(error.to_string()))?;
    let body = body(&response).map_err(&unexpected)?;
    if body.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(body).map_err(|error| unexpected(error.to_string()))
}

fn body(response: &str) -> Result<&str, String> {
    let (head, body) = response.split_once("\r\n\r\n").ok_or("no response")?;
    match head.split(' ').nth(1) {
        Some("200") => Ok(body),
        status => Err(format!("{} {}", status.unwrap_or_default(), body.trim())),
    }
}

impl Node for Daemon {
    fn tickets(&self) -> &[Ticket] {
        &self.tickets
    }

    fn address(&self) -> Option<String> {
        Some(format!("/ip4/{}/tcp/{PORT}/p2p/{}", self.site.address, self.id))
    }

    fn wait_until_ready(&mut self, timeout: Duration) -> Result<(), NodeError> {
        self.process.wait_for_line("Daemon is ready", timeout)?;
        let id = request(&self.site, "id")?;
        self.id = id["ID"].as_str().unwrap_or_default().to_owned();
        Ok(())
    }

    fn fetch(&mut self, dials: &[String]) -> Result<(), NodeError> {
        let (sender, receiver) = channel();
        let (site, wanted) = (self.site.clone(), self.wanted.clone());
        let dials: Vec<String> = multiaddrs(dials).cloned().collect();
        // The thread ends with kubo at the latest. Other nodes start to fetch while this one connects.
        let pin = move || {
            for address in dials {
                let connected = request(&site, &format!("swarm/connect?arg={address}"));
                if let Err(error) = connected {
                    let _ = sender.send(Err(error)); // the receiver is gone if the run has ended
                    return;
                }
            }
            for ticket in wanted {
                let path = format!("pin/add?arg={}&progress=false", ticket.name);
                if sender.send(request(&site, &path).map(drop)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name("pin".to_owned())
            .spawn(pin)
            .map_err(|source| NodeError::Spawn { program: "a thread".to_owned(), source })?;
        self.pins = Some(receiver);
        Ok(())
    }

    fn poll(&mut self) -> Result<Status, NodeError> {
        self.process.check_running()?;
        while let Some(Ok(pinned)) = self.pins.as_ref().map(Receiver::try_recv) {
            pinned?;
            self.pinned += 1;
        }
        let bytes = self.wanted.iter().take(self.pinned).map(|ticket| ticket.bytes).sum();
        Ok(Status { bytes, has_all: self.pinned == self.wanted.len() })
    }

    fn main_process(&mut self) -> Option<&mut Process> {
        Some(&mut self.process)
    }

    fn end(&mut self) -> Result<Totals, NodeError> {
        let stat = request(&self.site, "bitswap/stat");
        self.process.stop(Signal::TERM, STOP_TIMEOUT)?;
        let stat = stat?;
        let number = |name: &str| stat[name].as_u64();
        Ok(Totals {
            content_sent_bytes: number("DataSent"),
            duplicate_bytes: number("DupDataReceived"),
            messages: number("MessagesReceived"),
            ..Totals::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_isolated_repository_keeps_its_identity() {
        let mut config = json!({
            "Identity": { "PeerID": "12D3" },
            "Addresses": { "Swarm": ["/ip4/0.0.0.0/tcp/4001"], "AppendAnnounce": null },
            "Bootstrap": ["auto"],
            "AutoConf": {},
        });
        isolate(&mut config, Ipv4Addr::new(127, 0, 1, 3));
        assert_eq!(config["Identity"]["PeerID"], "12D3");
        assert_eq!(config["Addresses"]["Swarm"], json!(["/ip4/127.0.1.3/tcp/4001"]));
        assert_eq!(config["Bootstrap"], json!([]));
        assert_eq!(config["Swarm"]["Transports"]["Network"]["Relay"], false);
        assert_eq!(config["Internal"]["Bitswap"]["BroadcastControl"]["Enable"], false);
    }

    #[test]
    fn an_error_response_is_returned_with_its_text() {
        assert_eq!(body("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{}").unwrap(), "{}");
        assert_eq!(body("HTTP/1.0 500 Oh\r\n\r\nno such pin\n").unwrap_err(), "500 no such pin");
        assert!(body("").is_err());
    }
}
