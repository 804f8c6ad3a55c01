//! skopeo, which pulls an image into a folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::drivers::processes::host::{NodeError, Process, Site};

/// `skopeo copy`, before its options and its two images.
pub fn copy() -> Command {
    let mut command = Command::new("skopeo");
    command.args(["--insecure-policy", "copy", "--quiet", "--preserve-digests"]);
    command
}

/// Starts to pull an image from a server into the folder of a number.
pub fn pull(
    site: &Site,
    server: &str,
    repository: &str,
    number: usize,
) -> Result<Process, NodeError> {
    let mut command = copy();
    command.args(["--src-tls-verify=false", &format!("docker://{server}/{repository}")]);
    command.arg(format!("dir:{}", folder(site, number).display()));
    Process::start(site, command, "pull")
}

/// Bytes of the image with a number, as far as they are there.
pub fn bytes(site: &Site, number: usize) -> u64 {
    bytes_below(&folder(site, number))
}

fn folder(site: &Site, number: usize) -> PathBuf {
    site.folder.join(format!("copy-{number}"))
}

/// The bytes of the files in a folder.
pub fn bytes_below(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten();
    files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum()
}
