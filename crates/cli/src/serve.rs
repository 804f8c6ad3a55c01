use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use node::{Layers, Server, Settings, Started};

/// What `watchfire serve` takes. Flags win over the environment, which wins over the file.
#[derive(clap::Args)]
pub struct Arguments {
    /// The settings file; see config.example.toml for all there is to set.
    #[arg(long, value_name = "FILE", env = "WATCHFIRE_CONFIG")]
    config: Option<PathBuf>,
    /// Listen here instead; may be given more than once.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// Serve with this many processes behind the same port; `auto`: as many as
    /// limits.sockets_max needs under the open-file limit.
    #[arg(long, value_name = "N|auto", value_parser = processes)]
    processes: Option<u16>,
    /// Change any one setting, such as limits.peers_per_page_max=50.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
}

/// Serve until Ctrl-C or SIGTERM, then drain.
pub fn run(arguments: Arguments) -> anyhow::Result<()> {
    let settings = settings(arguments)?;
    node::start_logging(&settings.log)?;
    raise_open_file_limit();
    let is_encrypted = !settings.tls.cert.as_os_str().is_empty();

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let burning = std::cell::Cell::new(false);
    let stop = async {
        if let Err(error) = node::stop_signal().await {
            tracing::error!(%error, "no signal can stop this");
            std::future::pending::<()>().await;
        }
        println!("Asking all who watch to leave.");
    };
    let started = |started: &Started| {
        burning.set(true);
        if started.processes > 1 {
            println!("{} processes keep the fire.", started.processes);
        }
        println!("The fire burns at {}", link(started.address, is_encrypted));
    };
    runtime.block_on(Server::new(settings).with_pages().run(stop, started))?;
    if burning.get() {
        println!("The fire is out.");
    }
    Ok(())
}

/// How many processes: 0 for what the sockets need.
fn processes(text: &str) -> Result<u16, String> {
    match text {
        "auto" => Ok(0),
        "0" => Err("at least 1, or auto".into()),
        text => text.parse().map_err(|_| "a number, or auto".into()),
    }
}

fn settings(arguments: Arguments) -> anyhow::Result<Settings> {
    let mut layers = Layers::new();
    if let Some(file) = &arguments.config {
        layers.file(file)?;
    }
    layers.environment(std::env::vars())?;
    if !arguments.listen.is_empty() {
        let addresses: Vec<_> = arguments.listen.iter().map(ToString::to_string).collect();
        layers.assign("--listen", &format!("server.listen={}", addresses.join(",")))?;
    }
    if let Some(processes) = arguments.processes {
        layers.assign("--processes", &format!("server.processes={processes}"))?;
    }
    for assignment in &arguments.set {
        layers.assign("--set", assignment)?;
    }
    layers.settings().context("the settings do not fit together")
}

/// Every socket is an open file: take as many as the system lets us.
fn raise_open_file_limit() {
    if let Err(error) = node::raise_open_file_limit() {
        tracing::warn!(%error, "the open-file limit stays as it is");
    }
}

/// Where a person on this machine finds the server.
fn link(address: SocketAddr, is_encrypted: bool) -> String {
    let scheme = if is_encrypted { "https" } else { "http" };
    if address.ip().is_loopback() || address.ip().is_unspecified() {
        format!("{scheme}://localhost:{}", address.port())
    } else {
        format!("{scheme}://{address}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_says_localhost_where_that_is_meant() {
        let link = |address: &str, tls| link(address.parse().unwrap(), tls);
        assert_eq!(link("127.0.0.1:4000", false), "http://localhost:4000");
        assert_eq!(link("0.0.0.0:443", true), "https://localhost:443");
        assert_eq!(link("192.0.2.1:4000", false), "http://192.0.2.1:4000");
    }
}
