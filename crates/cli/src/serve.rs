use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use node::{Layers, Server, Settings};

/// What `watchfire serve` takes. Flags win over the environment, which wins over the file.
#[derive(clap::Args)]
pub struct Arguments {
    /// The settings file; see config.example.toml for all there is to set.
    #[arg(long, value_name = "FILE", env = "WATCHFIRE_CONFIG")]
    config: Option<PathBuf>,
    /// Listen here instead; may be given more than once.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
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

    let server = Server::new(settings).with_pages().start()?;
    println!("The fire burns at {}", link(server.address(), is_encrypted));

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        node::stop_signal().await?;
        if server.clients() > 0 {
            let (clients, period) = (server.clients(), server.drain_period());
            println!("Asking {clients} to leave within {:.1} s.", period.as_secs_f64());
        }
        server.drain().await;
        anyhow::Ok(())
    })?;
    println!("The fire is out.");
    Ok(())
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
