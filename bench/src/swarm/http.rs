//! Plain HTTP: all leechers download from one web server.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::peers::{Commands, Logged, Seeder};
use super::testbed::Node;
use crate::process::Watched;

const PORT: u16 = 8080;
const START_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const FILE: &str = "file";

/// nginx as one process, which is enough because the kernel sends the file.
pub struct Nginx {
    process: Logged,
    url: String,
    access_log: PathBuf,
}

impl Nginx {
    pub fn start(node: &Node, file: &Path, folder: &Path) -> Result<Self> {
        let root = folder.join("nginx");
        fs::create_dir_all(root.join("html"))?;
        symlink(file, root.join("html").join(FILE))?;
        let listen = format!("{}:{PORT}", node.address());
        fs::write(root.join("nginx.conf"), configuration(&listen))?;
        let mut command = node.command("nginx")?;
        command.arg("-p").arg(&root).args(["-c", "nginx.conf", "-e", "error.log"]);
        let mut process = Logged::spawn(&mut command, &folder.join("nginx"))?;
        wait_until_ready(&mut process, node, &root)?;
        let url = format!("http://{listen}/{FILE}");
        Ok(Nginx { process, url, access_log: root.join("access.log") })
    }
}

/// nginx does not report when it is ready, so this function connects until it succeeds.
fn wait_until_ready(process: &mut Logged, node: &Node, root: &Path) -> Result<()> {
    let started_at = Instant::now();
    let is_ready = || std::net::TcpStream::connect((node.address(), PORT)).is_ok();
    while !is_ready() {
        let has_ended = process.watched().has_ended()?;
        let is_late = started_at.elapsed() > START_TIMEOUT;
        let log = crate::log::log_tail(&root.join("error.log"));
        ensure!(!has_ended && !is_late, "cannot start nginx{}{log}", process.log_tail());
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// A configuration without compression, and with a log of the length of each response.
fn configuration(listen: &str) -> String {
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders = folders.map(|name| format!("  {name}_temp_path temp_{name};\n")).concat();
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nevents {{ worker_connections 1024; }}\n\
         http {{\n{folders}  log_format sent \"$body_bytes_sent\";\n  access_log access.log sent;\n  \
         sendfile on;\n  tcp_nopush on;\n  server {{ listen {listen}; root html; }}\n}}\n"
    )
}

impl Seeder for Nginx {
    fn name(&self) -> &str {
        FILE
    }

    fn address(&self) -> &str {
        &self.url
    }

    fn watched(&self) -> Watched {
        self.process.watched()
    }

    fn end(mut self: Box<Self>) -> Result<u64> {
        self.process.watched().signal(Signal::QUIT);
        self.process.wait(STOP_TIMEOUT)?;
        let log =
            fs::read_to_string(&self.access_log).context("cannot read the access log of nginx")?;
        let numbers: Result<Vec<u64>, _> = log.lines().map(str::parse).collect();
        Ok(numbers.context("unexpected access log of nginx")?.iter().sum())
    }
}

/// curl, once for each leecher.
pub fn curls<'a>(nodes: &'a [Node], seeder: &dyn Seeder, folder: &Path) -> Commands<'a> {
    let url = seeder.address().to_owned();
    Commands::prepare("curl", nodes, folder, move |node, copy| {
        let mut command = node.command("curl")?;
        command.args(["--fail", "--silent", "--show-error", "--noproxy", "*", "--output"]);
        command.arg(copy).arg(&url);
        Ok(command)
    })
}

/// dd, once for each leecher, with the block size with which Watchfire writes.
pub fn copiers<'a>(nodes: &'a [Node], file: &Path, folder: &Path) -> Commands<'a> {
    let from = OsString::from_iter([OsStr::new("if="), file.as_os_str()]);
    Commands::prepare("dd", nodes, folder, move |node, copy| {
        let mut command = node.command("dd")?;
        command.arg(&from).arg(OsString::from_iter([OsStr::new("of="), copy.as_os_str()]));
        command.args(["bs=64k", "status=none"]);
        Ok(command)
    })
}
