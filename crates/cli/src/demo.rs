//! `watchfire demo`: everything at once on this machine, until Ctrl-C: a server, a page, users and the operator's page.
//!
//! Each part is a process of this program with the arguments that a person would give it, so the demo shows what the commands
//! do. The parts have a folder of their own, which is removed at the end.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::serve::print_line;
use crate::signals::{SIGNALLED, Signals};

/// Time for a part to end by itself.
const END_MAX: Duration = Duration::from_secs(10);

/// The page of the demo.
const PAGE: &str = include_str!("demo/page.md");
/// Its users.
const USERS: &str = include_str!("demo/users.toml");

/// Arguments of `watchfire demo`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Serve on this port of localhost, and the operator's page on the port 10 above; on free ports if they are in use.
    #[arg(long, value_name = "PORT", default_value_t = 4000, value_parser = clap::value_parser!(u16).range(1..=65_525))]
    port: u16,
    /// Open no browser.
    #[arg(long)]
    no_browser: bool,
}

/// One process of the demo. It is killed if the demo ends in another way than by [`Part::end`].
struct Part {
    name: &'static str,
    child: Child,
}

impl Part {
    /// Starts a command of this program.
    fn start(
        name: &'static str,
        arguments: &[&str],
    ) -> anyhow::Result<(Part, Lines<BufReader<ChildStdout>>)> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut child = Command::new(program)
            .args(arguments)
            // The demo is the same wherever it runs.
            .env_remove("WATCHFIRE_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let output = child.stdout.take().expect("its output is a pipe");
        Ok((Part { name, child }, BufReader::new(output).lines()))
    }

    async fn end(mut self) {
        if let Some(id) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            // A part that has ended already is no error.
            let _ = kill_process(id, Signal::TERM);
        }
        // A part that does not end is killed when it is dropped.
        let _ = tokio::time::timeout(END_MAX, self.child.wait()).await;
    }
}

/// Runs all parts until a signal arrives or one of them ends.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        // The parts do not belong to the terminal, so its end does not end them.
        let mut hangups = signal(SignalKind::hangup())?;
        let folder = tempfile::tempdir().context("cannot make a folder for the demo")?;
        let mut parts = Vec::new();
        let ended = tokio::select! {
            code = signals.next() => Ok(code),
            _ = hangups.recv() => Ok(SIGNALLED + SignalKind::hangup().as_raw_value() as u8),
            result = show(arguments, folder.path(), &mut parts) => result.map(|never| match never {}),
        };
        // The users and the page before the server, so that they end without an error.
        for part in parts.into_iter().rev() {
            part.end().await;
        }
        ended.map(ExitCode::from)
    })
}

/// Starts all parts, and waits until one of them ends, which is an error.
async fn show(
    arguments: &Arguments,
    folder: &Path,
    parts: &mut Vec<Part>,
) -> anyhow::Result<Infallible> {
    let (port, operator_port) = free_ports(arguments.port)?;
    let (page, users) = (folder.join("demo.md"), folder.join("users.toml"));
    fs::write(&page, PAGE)
        .and_then(|()| fs::write(&users, USERS))
        .context("cannot write the demo's files")?;
    let [page, users] = [&page, &users].map(|path| path.to_string_lossy());
    let server = format!("http://localhost:{port}");
    let operator = format!("http://127.0.0.1:{operator_port}");

    let listen = format!("127.0.0.1:{port}");
    let admin = format!("admin.listen=[\"127.0.0.1:{operator_port}\"]");
    // Browsers on one machine need no STUN, and its port may be in use.
    let settings = [&*admin, "channels.open_rooms=true", "stun.enabled=false", "log.level=warn"];
    let settings = settings.into_iter().flat_map(|setting| ["--set", setting]);
    let serve: Vec<_> = ["serve", "--listen", &listen].into_iter().chain(settings).collect();
    let mut lines = start(parts, "the server", &serve)?;
    wait_for(&mut lines, "the server", |line| line.contains("running").then_some(())).await?;
    let mut unread = vec![lines];
    let mut lines = start(parts, "the page", &["share", "--json", "--to", &server, &page])?;
    let link = wait_for(&mut lines, "the page", |line| {
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(event["page"].as_str()?.to_owned())
    })
    .await?;
    unread.push(lines);
    let target = format!("ws://localhost:{port}");
    unread.push(start(parts, "the users", &["load", "--events", "--to", &target, &users])?);

    print_line(format_args!("The page:      {link}"));
    print_line(format_args!("The operator:  {operator}/"));
    print_line("200 users join a room and talk. Press Ctrl-C to end all of it.");
    let has_browser =
        !arguments.no_browser && [&link, &operator].map(|url| open(url)).contains(&true);
    if !arguments.no_browser && !has_browser {
        print_line("No browser could be opened: open the two links yourself.");
    }
    for mut lines in unread {
        // A pipe that nobody reads would stop its program.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    }
    let waits = parts
        .iter_mut()
        .map(|Part { name, child }| Box::pin(async { (*name, child.wait().await) }));
    let ((name, status), ..) = futures::future::select_all(waits).await;
    anyhow::bail!("cannot go on: {name} has ended ({})", status?)
}

fn start(
    parts: &mut Vec<Part>,
    name: &'static str,
    arguments: &[&str],
) -> anyhow::Result<Lines<BufReader<ChildStdout>>> {
    let (part, lines) = Part::start(name, arguments)?;
    parts.push(part);
    Ok(lines)
}

/// The first line from which something can be read.
async fn wait_for<T>(
    lines: &mut Lines<BufReader<ChildStdout>>,
    name: &str,
    read: impl Fn(&str) -> Option<T>,
) -> anyhow::Result<T> {
    while let Some(line) = lines.next_line().await? {
        if let Some(found) = read(&line) {
            return Ok(found);
        }
    }
    anyhow::bail!("cannot start {name}: its error is above")
}

/// The port and the one 10 above, or two free ones if one of them is in use.
fn free_ports(port: u16) -> io::Result<(u16, u16)> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    if bind(port).is_ok() && bind(port + 10).is_ok() {
        return Ok((port, port + 10));
    }
    let (first, second) = (bind(0)?, bind(0)?);
    let ports = (first.local_addr()?.port(), second.local_addr()?.port());
    eprintln!(
        "watchfire: port {port} or {} is in use; the demo takes {} and {}",
        port + 10,
        ports.0,
        ports.1
    );
    Ok(ports)
}

/// Opens a link in the person's browser. Returns whether there is one.
fn open(url: &str) -> bool {
    let has_display =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let opened = |program: &str| {
        let mut command = std::process::Command::new(program);
        command
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .is_ok()
    };
    has_display && opened("xdg-open")
}
