//! A namespace of network and mounts for the run, separate from the host's ports, limits and firewall.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;
use std::{fs, io, thread};

use anyhow::{Context, Result, ensure};

use crate::parent_death_guard::{GuardedChild, guarded_command};

/// Environment variable of the copy of this program that runs inside the namespace.
const INSIDE: &str = "BENCH_SCALE_INSIDE";
const SETTINGS: [(&str, &str); 3] = [
    ("net/core/somaxconn", "65535"),
    ("net/ipv4/tcp_max_syn_backlog", "262144"),
    // Every host allows it in a namespace. Unlike BBR, the default of some hosts, it needs no timer
    // for each socket.
    ("net/ipv4/tcp_congestion_control", "reno"),
];

/// Whether this process runs inside the namespace.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Run this program again inside a new namespace, which ends with its last process. `make` is the
/// target for the error text.
pub fn run_inside(make: &str) -> Result<ExitCode> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "creating a network namespace requires root: run make {make} as root or with sudo"
    );
    let mut command = guarded_command("unshare")?;
    command
        .args(["--net", "--mount", "--"])
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1));
    command.env(INSIDE, "1");
    let child = GuardedChild::spawn(&mut command);
    let started = child.and_then(|mut child| wait_until_isolated(&mut child).map(|()| child));
    let status = started.context("cannot create a network namespace")?.child().wait()?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, Into::into))
}

/// Wait until a child has its own network namespace, or has ended.
pub fn wait_until_isolated(child: &mut GuardedChild) -> io::Result<()> {
    let own = fs::read_link("/proc/self/ns/net")?;
    while child.child().try_wait()?.is_none() {
        match fs::read_link(format!("/proc/{}/ns/net", child.id())) {
            Ok(network) if network != own => break,
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
    Ok(())
}

/// Prepare the namespace from inside.
pub fn prepare() -> Result<()> {
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    ensure!(up.context("cannot run ip")?.success(), "cannot activate the loopback device");
    for (name, value) in SETTINGS {
        let path = Path::new("/proc/sys").join(name);
        // Older kernels lack some of these settings.
        if path.exists() {
            fs::write(&path, value).with_context(|| format!("cannot set {name}"))?;
        }
    }
    Ok(())
}
