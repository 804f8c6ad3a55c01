use std::fmt;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use watchfire::feature::{Feature as _, SectionType};
use watchfire::{Layers, Server, Settings, Started};
use watchfire_api::Api;
use watchfire_operator::{AdminSettings, Operator};
use watchfire_pages::{P2pSettings, Pages};

/// Signals, shown below the options.
const SIGNALS: &str = "Signals:
  SIGTERM, SIGINT  Stop accepting, close all clients over server.drain_period, and exit
  SIGUSR2          Start the program on disk, which takes over without refusing a connection";

/// Arguments of `watchfire serve`. Flags override the environment, which overrides the file.
#[derive(clap::Args)]
#[command(after_help = SIGNALS)]
pub struct Arguments {
    /// The settings file; config.example.toml lists every setting.
    #[arg(long, value_name = "FILE", env = "WATCHFIRE_CONFIG")]
    config: Option<PathBuf>,
    /// Listen on this address instead of the configured ones; can be repeated.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// Start this many processes behind the same port; `auto` starts as many as
    /// limits.sockets_max needs with the open-file limit.
    #[arg(long, value_name = "N|auto", value_parser = processes)]
    processes: Option<u16>,
    /// Change one setting, such as limits.peers_per_page_max=50; can be repeated.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Check the settings and the files that they name, show what the server would do, and exit.
    #[arg(long, conflicts_with = "print_config")]
    check: bool,
    /// Print every setting with its value and where the value comes from, and exit.
    #[arg(long)]
    print_config: bool,
}

/// Serves until Ctrl-C or SIGTERM, then drains.
pub fn run(arguments: Arguments) -> anyhow::Result<()> {
    let (is_check, is_print) = (arguments.check, arguments.print_config);
    let layers = layers(arguments)?;
    if is_print {
        print_line(layers.print().trim_end());
        return Ok(());
    }
    let settings = layers.settings().context("the settings contradict each other")?;
    if is_check {
        return check(settings);
    }
    watchfire::start_logging(&settings.log)?;
    let _traces = watchfire::start_traces(&settings.traces)?;
    raise_open_file_limit();
    let is_encrypted = settings.tls.is_on();

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let has_started = std::cell::Cell::new(false);
    let stop_signal = {
        let _context = runtime.enter();
        watchfire::stop_signal()
    };
    let stop = async {
        if let Err(error) = stop_signal.await {
            tracing::error!(%error, "cannot listen for signals");
            std::future::pending::<()>().await;
        }
        print_line("Asking all clients to disconnect.");
    };
    let started = |started: &Started| {
        has_started.set(true);
        if started.processes > 1 {
            print_line(format_args!("{} processes are serving.", started.processes));
        }
        for link in links(&started.addresses, is_encrypted) {
            print_line(format_args!("Watchfire is running at {link}"));
        }
        for address in started.addresses_of("operator") {
            print_line(format_args!("The operator's page is at http://{address}/"));
            print_line(format_args!("Metrics are at http://{address}/metrics"));
        }
    };
    let server = program_server(settings).return_memory_with(crate::memory::return_free);
    runtime.block_on(server.run(stop, started))?;
    if has_started.get() {
        print_line(format_args!("Process {} has stopped.", std::process::id()));
    }
    Ok(())
}

/// The server of this program, with all its features.
fn program_server(settings: Settings) -> Server {
    let operator = Operator::new().with_free_bytes(crate::memory::free_bytes);
    Server::new(settings).with(Pages::new()).with(operator).with(Api::new())
}

/// The sections of the settings that these features read, in the order of the settings file.
fn sections_of_features() -> Vec<SectionType> {
    [Pages::new().sections(), Operator::new().sections(), Api::new().sections()].concat()
}

/// The number of processes; 0 for `auto`.
fn processes(text: &str) -> Result<u16, String> {
    match text {
        "auto" => Ok(0),
        "0" => Err("must be at least 1, or auto".into()),
        text => text.parse().map_err(|_| "must be a number, or auto".into()),
    }
}

/// Shows what a server with these settings would do.
fn check(settings: Settings) -> anyhow::Result<()> {
    watchfire::raise_open_file_limit().context("cannot raise the open-file limit")?;
    let Settings { server, tls, .. } = &settings;
    let (p2p, admin) = (settings.section::<P2pSettings>(), settings.section::<AdminSettings>());
    let is_on = |on| if on { "on" } else { "off" };
    let mut lines: Vec<String> = links(&server.listen, tls.is_on())
        .into_iter()
        .map(|link| format!("would listen at {link}"))
        .collect();
    lines.push(match server.processes {
        0 => "processes: as many as the open-file limit requires".into(),
        processes => format!("processes: {processes}"),
    });
    let before_tls = lines.len();
    lines.push(format!("libp2p gateway: {}", is_on(p2p.is_on())));
    lines.push(match admin.listen.is_empty() {
        true => "metrics and admin calls: off".into(),
        false => {
            let addresses: Vec<_> = admin.listen.iter().map(|at| format!("http://{at}")).collect();
            let calls = is_on(!admin.token.is_empty());
            format!("metrics: {}; admin calls: {calls}", addresses.join(", "))
        }
    });
    let server = program_server(settings);
    lines.splice(before_tls..before_tls, server.check()?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    lines.extend(runtime.block_on(server.check_cluster())?);
    lines.iter().for_each(print_line);
    Ok(())
}

/// The settings of a server from the defaults, a settings file and the environment.
pub fn layers_of(config: Option<&Path>) -> anyhow::Result<Layers> {
    let mut layers = Layers::new().with(sections_of_features());
    // Hosting platforms name the port in this variable, and expect the server on every interface.
    if let Ok(port) = std::env::var("PORT") {
        layers.assign("PORT", &format!("server.listen=0.0.0.0:{port}"))?;
    }
    if let Some(file) = config {
        layers.file(file)?;
    }
    layers.environment(std::env::vars())?;
    Ok(layers)
}

fn layers(arguments: Arguments) -> anyhow::Result<Layers> {
    let mut layers = layers_of(arguments.config.as_deref())?;
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
    Ok(layers)
}

/// Raises the soft limit of open files to the hard limit: every socket is an open file.
fn raise_open_file_limit() {
    if let Err(error) = watchfire::raise_open_file_limit() {
        tracing::warn!(%error, "cannot raise the open-file limit");
    }
}

/// Prints a line. Drops it if standard output is closed, as in `serve | head -1`: the server
/// continues.
pub fn print_line(line: impl fmt::Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// The links of all listeners, in their order. Listeners with the same link have it once.
fn links(addresses: &[SocketAddr], is_encrypted: bool) -> Vec<String> {
    let mut links = Vec::new();
    for address in addresses {
        let link = link(*address, is_encrypted);
        if !links.contains(&link) {
            links.push(link);
        }
    }
    links
}

/// The URL of a listener for a browser on this machine.
fn link(address: SocketAddr, is_encrypted: bool) -> String {
    const LOCALHOST: [IpAddr; 2] =
        [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let scheme = if is_encrypted { "https" } else { "http" };
    if LOCALHOST.contains(&address.ip()) || address.ip().is_unspecified() {
        format!("{scheme}://localhost:{}", address.port())
    } else {
        format!("{scheme}://{address}")
    }
}

#[cfg(test)]
mod tests {
    use watchfire_settings::{AllSettings, documents};

    use super::*;

    #[test]
    fn the_link_names_localhost_for_loopback_and_any_address() {
        let link = |address: &str, tls| link(address.parse().unwrap(), tls);
        assert_eq!(link("127.0.0.1:4000", false), "http://localhost:4000");
        assert_eq!(link("0.0.0.0:443", true), "https://localhost:443");
        assert_eq!(link("192.0.2.1:4000", false), "http://192.0.2.1:4000");
        assert_eq!(link("127.0.0.2:4000", false), "http://127.0.0.2:4000");
    }

    #[test]
    fn listeners_with_the_same_link_have_it_once() {
        let addresses = ["0.0.0.0:4000", "[::]:4000", "192.0.2.1:4000"];
        let addresses = addresses.map(|address| address.parse().unwrap());
        let expected = ["http://localhost:4000", "http://192.0.2.1:4000"];
        assert_eq!(links(&addresses, false), expected);
    }

    /// All sections of this program. Those that only features have stand before the limits.
    fn all_sections() -> Vec<SectionType> {
        let mut sections = <Settings as AllSettings>::own_sections();
        let (shared, of_features): (Vec<_>, Vec<_>) = sections_of_features()
            .into_iter()
            .partition(|of| sections.iter().any(|own| own.name() == of.name()));
        let limits = sections.iter().position(|section| section.name() == "limits");
        let at = limits.expect("the server has limits");
        sections.splice(at..at, of_features);
        sections.extend(shared);
        sections
    }

    /// Compares a file of the repository, or writes it.
    #[track_caller]
    fn check_file(path: &str, expected: &str) {
        let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        if std::env::var_os("WATCHFIRE_WRITE").is_some() {
            std::fs::write(&path, expected).expect("the file is written");
        }
        let written = std::fs::read_to_string(&path).expect("the file is there");
        let hint = "WATCHFIRE_WRITE=1 cargo test -p watchfire-cli generated writes it";
        assert!(
            written == expected,
            "{} differs from the table of settings; {hint}",
            path.display()
        );
    }

    #[test]
    fn the_generated_example_file_has_every_setting_with_its_effect_and_default() {
        let example = documents::example(&all_sections());
        check_file("config.example.toml", &example);
        let mut layers = Layers::new().with(sections_of_features());
        let defaults = layers.print();
        layers.text("example", &example).expect("the example file parses");
        assert_eq!(layers.print(), defaults.replace("  # default", "  # example"));
    }

    #[test]
    fn the_generated_reference_has_every_setting_and_every_limit() {
        check_file("docs/reference/settings.md", &documents::reference(&all_sections()));
    }
}
