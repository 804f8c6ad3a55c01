//! `watchfire mirror` on each host, alone or as a fleet.

use std::fs::File;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::logged::Logged;
use super::registry::{NAME, PORT};
use super::system::System;
use super::testbed::Node;

const PEER_PORT: u16 = 5001;
const START_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Watchfire {
    pub program: PathBuf,
    /// Whether its mirrors can share blobs with each other.
    pub has_fleet: bool,
}

impl Watchfire {
    pub fn new(program: PathBuf) -> Result<Self> {
        let help = Command::new(&program).args(["mirror", "--help"]).stdin(Stdio::null()).output();
        let help = help.with_context(|| {
            format!("cannot run {}: make bench-images builds it", program.display())
        })?;
        ensure!(help.status.success(), "{} mirror --help failed", program.display());
        let has_fleet = String::from_utf8_lossy(&help.stdout).contains("--fleet-key");
        Ok(Watchfire { program, has_fleet })
    }

    pub fn write_key(&self, path: &Path) -> Result<()> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut command = Command::new(&self.program);
        command.args(["mirror", "key"]).stdin(Stdio::null()).stdout(file);
        ensure!(command.status()?.success(), "`watchfire mirror key` failed");
        Ok(())
    }

    /// Starts the mirror of a host, for the system [`System::Fleet`] or [`System::Mirror`]. The
    /// mirror of a fleet joins that of another host; the first has nobody to join.
    pub fn mirror(
        &self,
        system: System,
        node: &Node,
        joined: Option<&Node>,
        files: &MirrorFiles<'_>,
        upstream: SocketAddrV4,
    ) -> Result<Logged> {
        let mut command = node.command(&self.program)?;
        command.args(["mirror", "--upstream", &format!("{NAME}=http://{upstream}")]);
        command.args(["--listen", &format!("127.0.0.1:{PORT}"), "--store"]).arg(files.store);
        if system == System::Fleet {
            let peer = |node: &Node| format!("{}:{PEER_PORT}", node.address());
            command.args(["--peer-listen", &peer(node), "--fleet-key"]).arg(files.key);
            command.args(joined.iter().flat_map(|other| ["--join".to_owned(), peer(other)]));
        }
        Logged::spawn(&mut command, files.stem)
    }

    /// The bytes of blobs that the mirror of a host got twice from other hosts.
    pub fn duplicate_bytes(&self, node: &Node) -> Result<u64> {
        let url = format!("http://127.0.0.1:{PORT}");
        let mut command = node.command(&self.program)?;
        let output = command.args(["mirror", "status", "--json", "--mirror", &url]).output()?;
        ensure!(output.status.success(), "`watchfire mirror status` failed");
        let status: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        Ok(status["fleet"]["duplicate_bytes"].as_u64().unwrap_or_default())
    }
}

pub struct MirrorFiles<'a> {
    pub store: &'a Path,
    pub key: &'a Path,
    /// The path of its logs without extension.
    pub stem: &'a Path,
}

pub fn wait_until_ready(mirror: &mut Logged) -> Result<()> {
    let is_ready = |output: &str| output.contains("Mirroring on").then_some(());
    mirror.wait_for("mirror", START_TIMEOUT, is_ready)
}
