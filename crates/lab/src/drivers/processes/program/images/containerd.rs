//! containerd, the container engine of a host, and `ctr`, which pulls images into it.
//!
//! Each host has an engine of its own, with a disk and a mount namespace of its own (`disk.rs`). Its sockets are named
//! through `/proc/self/cwd`, because Linux permits at most 107 bytes for the path of a socket, and the folders of runs are
//! longer. containerd and `ctr` both run in the folder of their node.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::disk::Disk;
use super::facts::NAME;
use super::skopeo::bytes_below;
use crate::drivers::processes::host::{NodeError, Process, Site};

/// Layers that are fetched at the same time: the default of Kubernetes nodes.
const DOWNLOADS: &str = "3";
const SNAPSHOTTER: &str = "overlayfs";
/// The folder of snapshots, below the root of the engine. They are overlays themselves.
const SNAPSHOTS: &str = "io.containerd.snapshotter.v1.overlayfs/snapshots";
/// The folder of content, below the same root.
const CONTENT: &str = "io.containerd.content.v1.content";
const SOCKET: &str = "containerd.sock";
/// Plugins that need what a node does not have.
const DISABLED: [&str; 6] = [
    "io.containerd.grpc.v1.cri",
    "io.containerd.internal.v1.opt",
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
];

/// The container engine of a host.
pub struct Engine {
    pub process: Process,
    /// Whether it unpacks what it has pulled.
    pub unpacks: bool,
    /// Its content, as the lab sees it.
    content: PathBuf,
    hosts: PathBuf,
}

impl Engine {
    /// Starts containerd. It pulls from `registry`, and from `first` before that, if it is another server.
    pub fn start(
        site: &Site,
        registry: &str,
        first: &str,
        unpacks: bool,
    ) -> Result<Engine, NodeError> {
        let hosts = site.folder.join("hosts");
        let temporary = site.folder.join("tmp");
        for folder in [&hosts.join(NAME), &temporary] {
            fs::create_dir_all(folder).map_err(NodeError::file(folder))?;
        }
        let disk = Disk::new(site, "engine").map_err(NodeError::file(&site.folder))?;
        let config = site.folder.join("containerd.toml");
        for (path, text) in [
            (&hosts.join(NAME).join("hosts.toml"), hosts_file(registry, first)),
            (&config, configuration(&site.folder, &disk.path())),
        ] {
            fs::write(path, text).map_err(NodeError::file(path))?;
        }
        let mut command = Command::new("containerd");
        command.args(["--log-level", "warn", "--config"]).arg(config).env("TMPDIR", temporary);
        let command = disk.command(&command, Some(Path::new(SNAPSHOTS)));
        let process = Process::start(site, command, "containerd")?.called("containerd");
        Ok(Engine { process, unpacks, content: disk.written().join(CONTENT), hosts })
    }

    pub fn wait_until_ready(&mut self, timeout: Duration) -> Result<(), NodeError> {
        self.process.wait_until(timeout, |process| {
            let socket = process.id().map(|id| format!("/proc/{id}/cwd/{SOCKET}"));
            Ok(socket.and_then(|socket| UnixStream::connect(socket).ok()).map(|_| ()))
        })
    }

    /// Starts to pull an image.
    pub fn pull(&self, site: &Site, repository: &str) -> Result<Process, NodeError> {
        let mut command = Command::new("ctr");
        // With --debug it shows no progress bars, which would cost time for each layer.
        command.args(["--debug", "--address", &in_own_folder(SOCKET)]);
        command.args(["images", "pull", "--snapshotter", SNAPSHOTTER]);
        command.args(["--max-concurrent-downloads", DOWNLOADS, "--hosts-dir"]).arg(&self.hosts);
        command.arg(format!("{NAME}/{repository}"));
        Process::start(site, command, "pull")
    }

    /// Whether `ctr` has said in these lines that it has all of an image, and unpacks it.
    pub fn is_unpacking(lines: &[String]) -> bool {
        lines.iter().any(|line| line.starts_with("unpacking "))
    }

    /// Bytes of all content that it has or fetches.
    pub fn bytes(&self) -> u64 {
        let fetches = fs::read_dir(self.content.join("ingest")).into_iter().flatten().flatten();
        let data = |fetch: fs::DirEntry| fetch.path().join("data").metadata().ok();
        let fetched: u64 = fetches.filter_map(data).map(|data| data.len()).sum();
        fetched + bytes_below(&self.content.join("blobs/sha256"))
    }
}

fn in_own_folder(name: &str) -> String {
    format!("/proc/self/cwd/{name}")
}

/// containerd needs at least one host in the file, so without a mirror that is the registry.
fn hosts_file(registry: &str, first: &str) -> String {
    format!(
        "server = \"http://{registry}\"\n[host.\"http://{first}\"]\ncapabilities = [\"pull\", \"resolve\"]\n"
    )
}

fn configuration(folder: &Path, root: &Path) -> String {
    let disabled = DISABLED.map(|plugin| format!("\"{plugin}\"")).join(", ");
    let [socket, ttrpc, debug] = [SOCKET, "ttrpc.sock", "debug.sock"].map(in_own_folder);
    format!(
        "version = 2\nroot = {root:?}\nstate = {:?}\ndisabled_plugins = [{disabled}]\n[grpc]\naddress = \
         {socket:?}\n[ttrpc]\naddress = {ttrpc:?}\n[debug]\naddress = {debug:?}\n",
        folder.join("state"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_is_asked_before_the_registry() {
        let text = hosts_file("10.77.0.1:5000", "127.0.0.1:5000");
        assert!(text.starts_with("server = \"http://10.77.0.1:5000\"\n"), "{text}");
        assert!(text.contains("[host.\"http://127.0.0.1:5000\"]"), "{text}");
    }

    #[test]
    fn an_image_is_fetched_when_ctr_unpacks_it() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert!(Engine::is_unpacking(&lines("a\nunpacking linux/amd64 sha256:12...\n")));
        assert!(!Engine::is_unpacking(&lines("time=\"x\" level=debug msg=\"unpacking layer\"\n")));
    }
}
