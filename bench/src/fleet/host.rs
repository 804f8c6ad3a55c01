//! A host: a node with a folder, whose disk ignores requests to flush.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use super::testbed::Node;

/// Uses the one congestion control that every machine allows in a namespace, instead of its default.
pub fn use_reno(node: &Node) -> Result<()> {
    let mut command = node.command("sysctl")?;
    command.args(["-q", "-w", "net.ipv4.tcp_congestion_control=reno"]).stdin(Stdio::null());
    let output = command.output().context("cannot run sysctl")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cannot set the congestion control: {}", stderr.trim());
    Ok(())
}

/// A host of the fleet. Its mounts end with the node's namespace.
pub struct Host<'a> {
    pub node: &'a Node,
    pub folder: PathBuf,
}

impl<'a> Host<'a> {
    /// Creates the folder, and mounts its disk.
    ///
    /// Each real host has a disk of its own. Here all share one, and a flush of one host would wait
    /// for the data of all. So the disk is an overlay that is volatile: a flush does nothing there.
    /// The snapshots of containerd are overlays themselves, which Linux does not stack, so they are
    /// beside the disk.
    pub fn create(node: &'a Node, folder: PathBuf) -> Result<Self> {
        let host = Host { node, folder };
        let snapshots = "containerd/io.containerd.snapshotter.v1.overlayfs/snapshots";
        let mount_point = format!("upper/{snapshots}");
        for name in ["lower", "upper", "work", "disk", "snapshots", &mount_point] {
            let folder = host.folder.join(name);
            let failed = || format!("cannot create {}", folder.display());
            fs::create_dir_all(&folder).with_context(failed)?;
        }
        let path = |name: &str| host.folder.join(name).display().to_string();
        let [lower, upper, work] = ["lower", "upper", "work"].map(path);
        let options = format!("volatile,lowerdir={lower},upperdir={upper},workdir={work}");
        host.mount(&["-t", "overlay", "overlay", "-o", &options, &path("disk")])?;
        host.mount(&["--bind", &path("snapshots"), &path(&format!("disk/{snapshots}"))])?;
        Ok(host)
    }

    fn mount(&self, arguments: &[&str]) -> Result<()> {
        let mut command = self.node.command("mount")?;
        let output = command.args(arguments).stdin(Stdio::null()).output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "cannot mount the disk of a host at {}: {}",
            self.folder.display(),
            stderr.trim()
        );
        Ok(())
    }

    /// A path on its disk, which only its own programs see.
    pub fn on_disk(&self, name: &str) -> PathBuf {
        self.folder.join("disk").join(name)
    }

    pub fn engine_root(&self) -> PathBuf {
        self.on_disk("containerd")
    }
}
