//! containerd on a host, and `ctr`, which pulls an image into it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::host::Host;
use super::image::Image;
use super::logged::Logged;
use super::registry::{NAME, reference};
use crate::process::Watched;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);
/// Layers that are fetched at once: the default of Kubernetes nodes.
const DOWNLOADS: &str = "3";
const SNAPSHOTTER: &str = "overlayfs";
/// Plugins that need what a host of the lab does not have.
const DISABLED: [&str; 6] = [
    "io.containerd.grpc.v1.cri",
    "io.containerd.internal.v1.opt",
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
];
/// The longest path of a socket that Linux permits.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The container engine of a host.
pub struct Containerd {
    process: Logged,
    socket: PathBuf,
    hosts: PathBuf,
}

impl Containerd {
    /// Starts containerd. It pulls from `upstream`, and from `mirror` first if there is one.
    pub fn start(host: &Host<'_>, upstream: &str, mirror: Option<&str>) -> Result<Self> {
        let folder = &host.folder;
        let socket = folder.join("containerd.sock");
        ensure!(
            socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX,
            "the path {} is too long for a socket: use a shorter --out",
            socket.display()
        );
        let hosts = folder.join("hosts");
        fs::create_dir_all(hosts.join(NAME))?;
        fs::write(hosts.join(NAME).join("hosts.toml"), hosts_file(upstream, mirror))?;
        let config = folder.join("containerd.toml");
        fs::write(&config, configuration(folder, &host.engine_root()))?;
        let mut command = host.node.command("containerd")?;
        command.args(["--log-level", "warn", "--config"]).arg(config);
        let process = Logged::spawn(&mut command, &folder.join("containerd"))?;
        Ok(Containerd { process, socket, hosts })
    }

    pub fn wait_until_ready(&mut self) -> Result<()> {
        let started_at = Instant::now();
        loop {
            let mut command = Command::new("ctr");
            command.arg("--address").arg(&self.socket).arg("version");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if command.status().context("cannot run ctr")?.success() {
                return Ok(());
            }
            let has_ended = self.watched().has_ended()?;
            let is_late = started_at.elapsed() > START_TIMEOUT;
            ensure!(!has_ended && !is_late, "cannot start containerd{}", self.process.log_tail());
            std::thread::sleep(PAUSE);
        }
    }

    pub fn watched(&self) -> Watched {
        self.process.watched()
    }

    pub fn pull(&self, host: &Host<'_>, image: Image) -> Result<Pull> {
        let mut command = host.node.command("ctr")?;
        // With --debug it shows no progress bars, which would cost time for each layer.
        command.args(["--debug", "--address"]).arg(&self.socket);
        command.args(["images", "pull", "--snapshotter", SNAPSHOTTER]);
        command.args(["--max-concurrent-downloads", DOWNLOADS, "--hosts-dir"]).arg(&self.hosts);
        command.arg(reference(image));
        let process = Logged::spawn(&mut command, &host.folder.join("ctr"))?;
        Ok(Pull { process, fetched: None, complete: None, cpu: Duration::ZERO })
    }
}

/// containerd needs at least one host in the file, so without a mirror that is the registry.
fn hosts_file(upstream: &str, mirror: Option<&str>) -> String {
    let first = mirror.unwrap_or(upstream);
    format!("server = \"{upstream}\"\n[host.\"{first}\"]\ncapabilities = [\"pull\", \"resolve\"]\n")
}

fn configuration(folder: &Path, root: &Path) -> String {
    let disabled = DISABLED.map(|plugin| format!("\"{plugin}\"")).join(", ");
    format!(
        "version = 2\nroot = {root:?}\nstate = {:?}\ndisabled_plugins = [{disabled}]\n[grpc]\naddress = \
         {:?}\n[ttrpc]\naddress = {:?}\n[debug]\naddress = {:?}\n",
        folder.join("state"),
        folder.join("containerd.sock"),
        folder.join("ttrpc.sock"),
        folder.join("debug.sock"),
    )
}

pub struct Pull {
    process: Logged,
    /// When the host had fetched all of the image, after the start.
    pub fetched: Option<Duration>,
    /// When the image was unpacked too.
    pub complete: Option<Duration>,
    /// CPU time of the ended client.
    pub cpu: Duration,
}

impl Pull {
    /// Records how far the pull is; `after` is the time since the start. Fails if it has failed.
    pub fn poll(&mut self, after: Duration) -> Result<()> {
        if self.complete.is_some() {
            return Ok(());
        }
        let watched = self.process.watched();
        // Ask first, so that an ended client has written all of its output.
        let has_ended = watched.has_ended()?;
        if self.fetched.is_none() && self.process.output()?.contains("unpacking ") {
            self.fetched = Some(after);
        }
        if has_ended {
            self.cpu = watched.cpu_with_children()?;
            self.process.check_status()?;
            ensure!(self.fetched.is_some(), "ctr did not report that it unpacks the image");
            self.complete = Some(after);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_is_asked_before_the_registry() {
        let with = hosts_file("http://10.77.0.1:5000", Some("http://127.0.0.1:5000"));
        assert!(with.starts_with("server = \"http://10.77.0.1:5000\"\n"), "{with}");
        assert!(with.contains("[host.\"http://127.0.0.1:5000\"]"), "{with}");
        let without = hosts_file("http://10.77.0.1:5000", None);
        assert!(without.contains("[host.\"http://10.77.0.1:5000\"]"), "{without}");
    }
}
