//! docker-registry: the registry of the images, and its pull-through cache.

use std::fs;
use std::net::{SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::image::Image;
use super::logged::Logged;
use super::testbed::{Node, Testbed};
use crate::process::Watched;

pub const PORT: u16 = 5000;
/// The name under which the hosts pull.
pub const NAME: &str = "registry.lab.example";
const REPOSITORY: &str = "lab/image";
const START_TIMEOUT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// The reference of an image, as hosts pull it.
pub fn reference(image: Image) -> String {
    format!("{NAME}/{REPOSITORY}:{}", image.tag())
}

/// A server that is observed and ends with this value.
pub struct Served {
    pub process: Logged,
    pub address: SocketAddrV4,
}

impl Served {
    /// Waits until the server accepts connections.
    pub fn start(mut command: Command, node: &Node, name: &str, stem: &Path) -> Result<Self> {
        let process = Logged::spawn(&mut command, stem)?;
        let address = SocketAddrV4::new(node.address(), PORT);
        let started_at = Instant::now();
        while TcpStream::connect(address).is_err() {
            let has_ended = process.watched().has_ended()?;
            let is_late = started_at.elapsed() > START_TIMEOUT;
            ensure!(!has_ended && !is_late, "cannot start {name}{}", process.log_tail());
            std::thread::sleep(PAUSE);
        }
        Ok(Served { process, address })
    }

    pub fn watched(&self) -> Watched {
        self.process.watched()
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Starts a registry with its content in `root`; with `upstream`, a pull-through cache of that URL.
/// Its files are `<stem>.yml` and its logs.
pub fn start(node: &Node, root: &Path, stem: &Path, upstream: Option<&str>) -> Result<Served> {
    let file = stem.with_extension("yml");
    let listen = SocketAddrV4::new(node.address(), PORT);
    fs::write(&file, configuration(root, listen, upstream))
        .with_context(|| format!("cannot write {}", file.display()))?;
    let mut command = node.command("docker-registry")?;
    command.arg("serve").arg(file);
    Served::start(command, node, "docker-registry", stem)
}

fn configuration(root: &Path, listen: SocketAddrV4, upstream: Option<&str>) -> String {
    let mut text = format!(
        "version: 0.1\nlog: {{level: info, accesslog: {{disabled: true}}}}\nstorage:\n  filesystem: \
         {{rootdirectory: {:?}}}\n  maintenance: {{uploadpurging: {{enabled: false}}}}\nhttp: {{addr: \
         \"{listen}\"}}\n",
        root
    );
    if let Some(upstream) = upstream {
        text += &format!("proxy: {{remoteurl: \"{upstream}\"}}\n");
    }
    text
}

/// Bytes of all bodies that a registry has sent, from its log.
pub fn sent_bytes(registry: &Served) -> Result<u64> {
    let log = registry.process.error_output()?;
    let answers = log.lines().filter(|line| line.contains("\"response completed"));
    let bytes = |line: &str| {
        let rest = line.split("http.response.written=").nth(1)?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    answers.map(|line| bytes(line).context("unexpected log of docker-registry")).sum()
}

/// Pushes an image from an OCI layout into the storage of a registry.
pub fn push(image: Image, layout: &Path, root: &Path, stem: &Path) -> Result<()> {
    let testbed = Testbed::local();
    let registry = start(testbed.registry(), root, stem, None)?;
    let mut command = testbed.registry().command("skopeo")?;
    command.args(["--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false"]);
    command.arg(format!("oci:{}:{}", layout.display(), image.tag()));
    command.arg(format!("docker://{}/{REPOSITORY}:{}", registry.address, image.tag()));
    let output = command.stdin(Stdio::null()).output().context("cannot run skopeo")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cannot push the image {}: {}", image.tag(), stderr.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_names_its_upstream() {
        let listen = "10.77.0.1:5000".parse().unwrap();
        let own = configuration(Path::new("/a b"), listen, None);
        assert!(own.contains("\"/a b\"") && !own.contains("remoteurl"), "{own}");
        let cache = configuration(Path::new("/a"), listen, Some("http://10.77.0.2:5000"));
        assert!(cache.ends_with("proxy: {remoteurl: \"http://10.77.0.2:5000\"}\n"), "{cache}");
    }
}
