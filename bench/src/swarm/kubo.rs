//! Real kubo, with repositories that are isolated from the public network.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::peers::{LeecherTotals, Leechers, Logged, Seeder};
use super::system::Blocks;
use super::testbed::Node;
use crate::process::Watched;

const START_TIMEOUT: Duration = Duration::from_secs(120);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const PORT: u16 = 4001;
const API_PORT: u16 = 5001;
const GATEWAY_PORT: u16 = 8080;

/// kubo, and a cache of repositories: creating one costs more than copying it.
pub struct Kubo {
    program: PathBuf,
    pub repositories: PathBuf,
}

impl Kubo {
    pub fn new(program: &Path, folder: &Path) -> Self {
        let repositories = folder.join("kubo-repositories");
        Kubo { program: program.to_owned(), repositories }
    }

    fn command(&self, repository: &Path) -> Command {
        let mut command = Command::new(&self.program);
        with_environment(&mut command, repository);
        command
    }

    /// An empty repository with its own identity, configured for an address.
    fn repository(&self, number: usize, address: Ipv4Addr, folder: &Path) -> Result<PathBuf> {
        let fresh = self.repositories.join(number.to_string());
        if !fresh.join("config").exists() {
            fs::create_dir_all(&self.repositories)?;
            let mut init = self.command(&fresh);
            run(init.args(["init", "--empty-repo", "--profile=test"]))?;
        }
        let copy = folder.join(format!("kubo-{number}"));
        run(Command::new("cp").arg("-a").arg(&fresh).arg(&copy))?;
        let file = copy.join("config");
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
        isolate(&mut config, address);
        fs::write(&file, config.to_string())?;
        Ok(copy)
    }
}

/// Turns off every connection except those that the benchmark makes.
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
    ] {
        let parts = pointer.trim_start_matches('/').split('/');
        let slot = parts.fold(&mut *config, |object, part| &mut object[part]);
        *slot = value;
    }
}

fn with_environment(command: &mut Command, repository: &Path) {
    command.env("IPFS_PATH", repository).env("IPFS_TELEMETRY", "off");
    command.env("GOLOG_LOG_LEVEL", "error").env("DO_NOT_TRACK", "1");
}

fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {name}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} failed: {}", stderr.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

struct Daemon {
    process: Logged,
    at: Ipv4Addr,
    id: String,
}

impl Daemon {
    /// Starts kubo, which is ready after [`Daemon::wait`].
    fn start(kubo: &Kubo, node: &Node, repository: &Path) -> Result<Self> {
        let mut command = node.command(&kubo.program)?;
        with_environment(&mut command, repository);
        command.args(["daemon", "--migrate=false"]);
        let process = Logged::spawn(&mut command, &repository.with_extension("log"))?;
        Ok(Daemon { process, at: node.address(), id: String::new() })
    }

    fn wait(&mut self) -> Result<()> {
        let is_ready = |output: &str| output.contains("Daemon is ready").then_some(());
        self.process.wait_for("kubo", START_TIMEOUT, is_ready)?;
        let response: Value = serde_json::from_str(&request(self.at, "id")?)?;
        self.id = response["ID"].as_str().context("kubo did not return its peer id")?.to_owned();
        Ok(())
    }

    fn address(&self) -> String {
        format!("/ip4/{}/tcp/{PORT}/p2p/{}", self.at, self.id)
    }

    fn connect(&self, address: &str) -> Result<()> {
        request(self.at, &format!("swarm/connect?arg={address}")).map(drop)
    }

    fn exchanged(&self) -> Result<Value> {
        Ok(serde_json::from_str(&request(self.at, "bitswap/stat")?)?)
    }
}

/// Sends a request to the HTTP API of a kubo, and waits for the whole response.
fn request(at: Ipv4Addr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&(at, API_PORT).into(), CONNECT_TIMEOUT)?;
    // A response to HTTP/1.0 is not chunked, and ends with the connection.
    write!(stream, "POST /api/v0/{path} HTTP/1.0\r\nHost: {at}:{API_PORT}\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    body(&response).with_context(|| format!("kubo request {path}"))
}

fn body(response: &str) -> Result<String> {
    let (head, body) = response.split_once("\r\n\r\n").context("no response")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    ensure!(status == "200", "{status} {}", body.trim());
    Ok(body.to_owned())
}

pub struct KuboSeeder {
    daemon: Daemon,
    cid: String,
    address: String,
}

impl KuboSeeder {
    pub fn start(
        kubo: &Kubo,
        node: &Node,
        file: &Path,
        blocks: Blocks,
        folder: &Path,
    ) -> Result<Self> {
        let repository = kubo.repository(0, node.address(), folder)?;
        let mut add = kubo.command(&repository);
        let cid = run(add.args(["add", "-Q"]).args(import_options(blocks)).arg(file))?;
        let mut daemon = Daemon::start(kubo, node, &repository)?;
        daemon.wait()?;
        let address = daemon.address();
        Ok(KuboSeeder { daemon, cid, address })
    }
}

fn import_options(blocks: Blocks) -> &'static [&'static str] {
    match blocks {
        Blocks::Large => {
            &["--cid-version=1", "--raw-leaves", "--chunker=size-1048576", "--max-file-links=1024"]
        }
        Blocks::Small => &[],
    }
}

impl Seeder for KuboSeeder {
    fn name(&self) -> &str {
        &self.cid
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn watched(&self) -> Watched {
        self.daemon.process.watched()
    }

    fn end(self: Box<Self>) -> Result<u64> {
        let exchanged = self.daemon.exchanged()?;
        exchanged["DataSent"].as_u64().context("kubo did not report the sent bytes")
    }
}

/// Kubos that pin the file; all start at the same time.
pub struct Pins {
    daemons: Vec<Daemon>,
    cid: String,
    used_before: Duration,
    pins: Option<Receiver<(usize, Result<String>)>>,
    finishes: Vec<Duration>,
}

impl Pins {
    /// Starts and connects the daemons.
    pub fn prepare(
        kubo: &Kubo,
        nodes: &[Node],
        dials: &[Vec<usize>],
        seeder: &dyn Seeder,
        folder: &Path,
    ) -> Result<Self> {
        let mut daemons = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let repository = kubo.repository(index + 1, node.address(), folder)?;
            daemons.push(Daemon::start(kubo, node, &repository)?);
        }
        for daemon in &mut daemons {
            daemon.wait()?;
        }
        for (daemon, dials) in daemons.iter().zip(dials) {
            daemon.connect(seeder.address())?;
            for other in dials {
                daemon.connect(&daemons[*other].address())?;
            }
        }
        let cid = seeder.name().to_owned();
        let (used_before, pins, finishes) = (Duration::ZERO, None, Vec::new());
        Ok(Pins { daemons, cid, used_before, pins, finishes })
    }

    fn used(&self) -> Result<Duration> {
        let mut sum = Duration::ZERO;
        for daemon in &self.daemons {
            sum += daemon.process.watched().cpu_with_children()?;
        }
        Ok(sum)
    }
}

impl Leechers for Pins {
    fn start(&mut self) -> Result<()> {
        self.used_before = self.used()?;
        let (sender, receiver) = channel();
        for (index, daemon) in self.daemons.iter().enumerate() {
            let (at, sender) = (daemon.at, sender.clone());
            let path = format!("pin/add?arg={}&progress=false", self.cid);
            // The thread ends with kubo at the latest.
            thread::Builder::new().spawn(move || sender.send((index, request(at, &path))))?;
        }
        self.pins = Some(receiver);
        Ok(())
    }

    fn poll(&mut self, after: Duration) -> Result<()> {
        let Some(pins) = &self.pins else { return Ok(()) };
        loop {
            match pins.try_recv() {
                Ok((index, response)) => {
                    let response = response.with_context(|| format!("leecher {index}"))?;
                    ensure!(
                        response.contains(&self.cid),
                        "unexpected response of leecher {index}: {}",
                        response.trim()
                    );
                    self.finishes.push(after);
                }
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) if self.finishes.len() == self.daemons.len() => {
                    return Ok(());
                }
                Err(TryRecvError::Disconnected) => bail!("a kubo request ended without a result"),
            }
        }
    }

    fn finishes(&self) -> &[Duration] {
        &self.finishes
    }

    fn cpu(&self) -> Result<Duration> {
        Ok(self.used()?.saturating_sub(self.used_before))
    }

    fn end(self: Box<Self>) -> Result<LeecherTotals> {
        let mut totals = LeecherTotals::default();
        for daemon in &self.daemons {
            let peak_bytes = daemon.process.watched().peak_bytes()?;
            totals.peak_bytes = totals.peak_bytes.max(peak_bytes);
            let duplicates = daemon.exchanged()?["DupDataReceived"].as_u64();
            totals.duplicate_bytes +=
                duplicates.context("kubo did not report the duplicate bytes")?;
        }
        Ok(totals)
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
    }

    #[test]
    fn an_error_response_is_returned_with_its_text() {
        assert_eq!(body("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{}").unwrap(), "{}");
        let error = body("HTTP/1.0 500 Oh\r\n\r\nno such pin\n").unwrap_err().to_string();
        assert_eq!(error, "500 no such pin");
        assert!(body("").is_err());
    }
}
