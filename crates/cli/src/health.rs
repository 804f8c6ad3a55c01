//! `watchfire health`: whether a server answers, for the health check of a container.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use watchfire::Settings;
use watchfire_page_client::ServerUrl;

use crate::http_client::{HttpClient, Request};
use crate::serve;

/// Bytes that are read of an answer; the status line is far shorter.
const ANSWER_BYTES_MAX: usize = 1024;
const PATH: &str = "/healthz";

/// Arguments of `watchfire health`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The server, such as http://localhost:4000. Without it: the first address of server.listen, from the
    /// same settings file and environment as `watchfire serve`.
    #[arg(long, value_name = "URL", conflicts_with = "server")]
    to: Option<ServerUrl>,
    /// The same server without `--to`, for checks that were written before this option.
    #[arg(hide = true)]
    server: Option<ServerUrl>,
    /// The settings file of the server.
    #[arg(long, value_name = "FILE", env = "WATCHFIRE_CONFIG", conflicts_with_all = ["to", "server"])]
    config: Option<PathBuf>,
    /// How long to wait for the answer.
    #[arg(long, value_name = "DURATION", default_value = "3s")]
    timeout: humantime::Duration,
}

/// Requests /healthz, and fails unless the server answers it with 200.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let server = match arguments.to.as_ref().or(arguments.server.as_ref()) {
        Some(server) => server.clone(),
        None => server_of(&serve::layers_of(arguments.config.as_deref())?.settings()?)?,
    };
    let status = HttpClient::new(&server, arguments.timeout.into(), ANSWER_BYTES_MAX)
        .and_then(|client| client.exchange_blocking(&Request::get(PATH)))
        .with_context(|| format!("cannot check {server}{PATH}"))?
        .status;
    if status != 200 {
        bail!(
            "cannot check {server}{PATH}: the answer has status {status} instead of 200; see the log of the server"
        );
    }
    println!("{server} is healthy");
    Ok(())
}

/// The address at which this machine reaches a server with these settings.
fn server_of(settings: &Settings) -> anyhow::Result<ServerUrl> {
    let Some(listen) = settings.server.listen.first() else {
        bail!(
            "cannot check the server: server.listen is empty; name the server with --to, such as http://localhost:4000"
        );
    };
    if settings.tls.is_on() {
        bail!(
            "cannot check the server at {listen}: its certificate is for another name; name the server with --to, such as https://example.org"
        );
    }
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let address = SocketAddr::new(ip, listen.port());
    Ok(format!("http://{address}").parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_the_first_listener_as_this_machine_reaches_it() {
        let server = |listen: &str| {
            let mut settings = Settings::default();
            settings.server.listen =
                listen.split(' ').map(|address| address.parse().unwrap()).collect();
            server_of(&settings).unwrap().to_string()
        };
        assert_eq!(server("127.0.0.1:4000"), "http://127.0.0.1:4000");
        assert_eq!(server("0.0.0.0:80 127.0.0.1:1"), "http://127.0.0.1:80");
        assert_eq!(server("[::]:4000"), "http://[::1]:4000");
        assert_eq!(server("192.0.2.1:4000"), "http://192.0.2.1:4000");
    }

    #[test]
    fn a_server_with_tls_must_be_named() {
        let mut settings = Settings::default();
        settings.tls.cert = "/etc/watchfire/cert.pem".into();
        let error = server_of(&settings).unwrap_err().to_string();
        assert!(
            error.ends_with("name the server with --to, such as https://example.org"),
            "{error}"
        );
    }
}
