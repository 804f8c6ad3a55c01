//! Real kubo, with repositories that know nobody.

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

use super::peers::{Leechers, Logged, Seeder, Taken};
use super::system::Blocks;
use super::testbed::Node;
use crate::process::Watched;

const START_PATIENCE: Duration = Duration::from_secs(120);
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
const PORT: u16 = 4001;
const API_PORT: u16 = 5001;
const GATEWAY_PORT: u16 = 8080;

/// kubo, and repositories that it has made already: to make one costs more than to copy it.
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

    /// An empty repository with an identity of its own, for use at an address.
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
        keep_apart(&mut config, address);
        fs::write(&file, config.to_string())?;
        Ok(copy)
    }
}

/// Nobody is asked, told or reached but those that are connected here.
fn keep_apart(config: &mut Value, address: Ipv4Addr) {
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
        let place = parts.fold(&mut *config, |object, part| &mut object[part]);
        *place = value;
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
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} failed: {}", said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A kubo that runs.
struct Daemon {
    process: Logged,
    at: Ipv4Addr,
    id: String,
}

impl Daemon {
    /// Starts it; it is ready after [`Daemon::wait`].
    fn start(kubo: &Kubo, node: &Node, repository: &Path) -> Result<Self> {
        let mut command = node.command(&kubo.program)?;
        with_environment(&mut command, repository);
        command.args(["daemon", "--migrate=false"]);
        let process = Logged::spawn(&mut command, &repository.with_extension("log"))?;
        Ok(Daemon { process, at: node.address(), id: String::new() })
    }

    fn wait(&mut self) -> Result<()> {
        let is_ready = |output: &str| output.contains("Daemon is ready").then_some(());
        self.process.wait_for("kubo", START_PATIENCE, is_ready)?;
        let said: Value = serde_json::from_str(&ask(self.at, "id")?)?;
        self.id = said["ID"].as_str().context("kubo does not say who it is")?.to_owned();
        Ok(())
    }

    fn address(&self) -> String {
        format!("/ip4/{}/tcp/{PORT}/p2p/{}", self.at, self.id)
    }

    fn connect(&self, address: &str) -> Result<()> {
        ask(self.at, &format!("swarm/connect?arg={address}")).map(drop)
    }

    fn exchanged(&self) -> Result<Value> {
        Ok(serde_json::from_str(&ask(self.at, "bitswap/stat")?)?)
    }
}

/// Asks a kubo over its HTTP interface, and waits for the whole answer.
fn ask(at: Ipv4Addr, what: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&(at, API_PORT).into(), CONNECT_PATIENCE)?;
    // Nothing is sent in chunks to those who speak HTTP/1.0, and the end of the answer is the end.
    write!(stream, "POST /api/v0/{what} HTTP/1.0\r\nHost: {at}:{API_PORT}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    body(&answer).with_context(|| format!("kubo, asked for {what}"))
}

fn body(answer: &str) -> Result<String> {
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    ensure!(status == "200", "{status} {}", body.trim());
    Ok(body.to_owned())
}

/// A kubo that has the file.
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
        exchanged["DataSent"].as_u64().context("kubo does not say what it sent")
    }
}

/// Kubos that pin the file, all from the same moment on.
pub struct Pins {
    daemons: Vec<Daemon>,
    cid: String,
    used_before: Duration,
    pins: Option<Receiver<(usize, Result<String>)>>,
    finishes: Vec<Duration>,
}

impl Pins {
    /// Starts and connects them.
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
            sum += daemon.process.watched().cpu_in_all()?;
        }
        Ok(sum)
    }
}

impl Leechers for Pins {
    fn go(&mut self) -> Result<()> {
        self.used_before = self.used()?;
        let (sender, receiver) = channel();
        for (index, daemon) in self.daemons.iter().enumerate() {
            let (at, sender) = (daemon.at, sender.clone());
            let what = format!("pin/add?arg={}&progress=false", self.cid);
            // It ends when kubo does, at the latest.
            thread::Builder::new().spawn(move || sender.send((index, ask(at, &what))))?;
        }
        self.pins = Some(receiver);
        Ok(())
    }

    fn look(&mut self, after: Duration) -> Result<()> {
        let Some(pins) = &self.pins else { return Ok(()) };
        loop {
            match pins.try_recv() {
                Ok((index, answer)) => {
                    let answer = answer.with_context(|| format!("leecher {index}"))?;
                    ensure!(answer.contains(&self.cid), "leecher {index} said: {}", answer.trim());
                    self.finishes.push(after);
                }
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) if self.finishes.len() == self.daemons.len() => {
                    return Ok(());
                }
                Err(TryRecvError::Disconnected) => bail!("a kubo was not waited for"),
            }
        }
    }

    fn finishes(&self) -> &[Duration] {
        &self.finishes
    }

    fn cpu(&self) -> Result<Duration> {
        Ok(self.used()?.saturating_sub(self.used_before))
    }

    fn end(self: Box<Self>) -> Result<Taken> {
        let mut taken = Taken::default();
        for daemon in &self.daemons {
            let peak_bytes = daemon.process.watched().peak_bytes()?;
            taken.peak_bytes = taken.peak_bytes.max(peak_bytes);
            let twice = daemon.exchanged()?["DupDataReceived"].as_u64();
            taken.duplicate_bytes += twice.context("kubo does not say what came twice")?;
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_kept_apart_and_keeps_who_it_is() {
        let mut config = json!({
            "Identity": { "PeerID": "12D3" },
            "Addresses": { "Swarm": ["/ip4/0.0.0.0/tcp/4001"], "AppendAnnounce": null },
            "Bootstrap": ["auto"],
            "AutoConf": {},
        });
        keep_apart(&mut config, Ipv4Addr::new(127, 0, 1, 3));
        assert_eq!(config["Identity"]["PeerID"], "12D3");
        assert_eq!(config["Addresses"]["Swarm"], json!(["/ip4/127.0.1.3/tcp/4001"]));
        assert_eq!(config["Bootstrap"], json!([]));
        assert_eq!(config["Swarm"]["Transports"]["Network"]["Relay"], false);
    }

    #[test]
    fn an_answer_that_is_no_success_is_an_error_that_says_why() {
        assert_eq!(body("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{}").unwrap(), "{}");
        let error = body("HTTP/1.0 500 Oh\r\n\r\nno such pin\n").unwrap_err().to_string();
        assert_eq!(error, "500 no such pin");
        assert!(body("").is_err());
    }
}
