//! `watchfire mirror status`: what a running mirror has, and what it fetches.

mod view;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use watchfire_mirror::client::MirrorClient;
use watchfire_mirror::upstream::Registry;

use crate::live_lines::LiveLines;
use crate::signals::Signals;
use view::View;

/// Time between two looks with --watch.
const INTERVAL: Duration = Duration::from_millis(500);

/// Arguments of `watchfire mirror status`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The address of the mirror. It tells its status only to programs of its own host.
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:5000",
        value_parser = super::parse_address
    )]
    mirror: Registry,
    /// Show the status again each half second until you press Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// Print the status as JSON; with --watch, one line for each.
    #[arg(long)]
    json: bool,
}

/// Prints the status once, or again and again.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = MirrorClient::new(&arguments.mirror)?;
        match arguments.watch {
            true => watch(arguments, &client).await,
            false => {
                let report = client.status().await?;
                let text = match arguments.json {
                    true => serde_json::to_string_pretty(&report)?,
                    false => View::default().lines(&report).join("\n"),
                };
                println!("{text}");
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

async fn watch(arguments: &Arguments, client: &MirrorClient) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let mut view = View::default();
    let mut live = LiveLines::default();
    let is_terminal = io::stdout().is_terminal();
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut is_first = true;
    loop {
        tokio::select! {
            code = signals.next() => return Ok(ExitCode::from(code)),
            _ = ticks.tick() => {}
        }
        let shown = match client.status().await {
            Ok(report) if arguments.json => {
                writeln!(io::stdout(), "{}", serde_json::to_string(&report)?)
            }
            Ok(report) => {
                let lines = view.lines(&report);
                match is_terminal {
                    true => live.draw(&lines, &mut io::stdout()),
                    false => writeln!(io::stdout(), "{}\n", lines.join("\n")),
                }
            }
            // A mirror that is restarted answers again soon.
            Err(error) if !is_first && is_terminal && !arguments.json => {
                live.draw(&[error.to_string()], &mut io::stdout())
            }
            Err(error) => return Err(error.into()),
        };
        is_first = false;
        if shown.is_err() {
            // Nobody reads the output any more.
            return Ok(ExitCode::SUCCESS);
        }
    }
}
