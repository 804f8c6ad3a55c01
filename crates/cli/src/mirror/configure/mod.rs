//! `watchfire mirror configure`: writes the files that make a container engine pull through the mirror.
//!
//! It shows its changes first, asks, and keeps what it replaces, so that `--undo` restores it.

mod containerd;
mod host;
mod imports;
mod podman;
mod record;

use std::io::{self, BufRead, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use watchfire_mirror::upstream::Registry;

use host::Host;
use record::{Change, Record};

/// Arguments of `watchfire mirror configure`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    engine: Engine,
}

#[derive(clap::Subcommand)]
enum Engine {
    /// Configure containerd, and so Kubernetes and nerdctl.
    Containerd {
        /// Let containerd ask the registry itself which image a tag is. Then it cannot pull by tag while
        /// the registry is down.
        #[arg(long, conflicts_with = "undo")]
        pull_only: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Configure Podman, Buildah and Skopeo.
    Podman {
        /// A registry to pull from through the mirror; can be repeated. The mirror needs it as an
        /// --upstream.
        #[arg(long, value_name = "NAME", default_value = "docker.io", value_parser = parse_name, conflicts_with = "undo")]
        registry: Vec<Registry>,
        #[command(flatten)]
        options: Options,
    },
}

/// The options for every engine.
#[derive(clap::Args)]
struct Options {
    /// The address of the mirror.
    #[arg(
        long,
        value_name = "URL",
        default_value = "http://127.0.0.1:5000",
        value_parser = super::parse_address,
        conflicts_with = "undo"
    )]
    mirror: Registry,
    /// Restore the files as they were before the first `configure`.
    #[arg(long)]
    undo: bool,
    /// Change the files without asking.
    #[arg(long)]
    yes: bool,
    /// The folder that is the root of the host, such as that of an image.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

fn parse_name(text: &str) -> Result<Registry, String> {
    match text.parse::<Registry>() {
        Ok(registry) if !text.contains(['=', '/']) => Ok(registry),
        _ => Err("expected a host as in the names of images, such as docker.io".into()),
    }
}

/// The texts that files of the host are to have, and remarks for the operator.
#[derive(Default)]
struct Plan {
    files: Vec<(PathBuf, String)>,
    notes: Vec<String>,
}

/// Configures the engine, or restores its files.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (Engine::Containerd { options, .. } | Engine::Podman { options, .. }) = &arguments.engine;
    let host = Host::new(options.root.clone())?;
    let record = Record::read(&host, arguments.engine.record_path())?;
    match options.undo {
        true => undo(&host, &arguments.engine, options, record),
        false => configure(&host, &arguments.engine, options, record),
    }
}

fn configure(
    host: &Host,
    engine: &Engine,
    options: &Options,
    mut record: Record,
) -> anyhow::Result<ExitCode> {
    let base = |path: &Path| record.base(host, path);
    let plan = match engine {
        Engine::Containerd { pull_only, .. } => {
            containerd::plan(host, &base, &options.mirror, *pull_only)?
        }
        Engine::Podman { registry, .. } => podman::plan(host, &options.mirror, registry)?,
    };
    let mut changes = Vec::new();
    for (path, after) in plan.files {
        changes.extend(record.change(host, &path, after)?);
    }
    for note in &plan.notes {
        println!("Note: {note}");
    }
    if changes.is_empty() {
        let mirror = options.mirror.base_url();
        println!("Nothing to change: {} is configured for {mirror}.", engine.name());
        return Ok(ExitCode::SUCCESS);
    }
    show(host, &changes);
    if !is_confirmed(options.yes, &mut io::stdin().lock())? {
        return Ok(ExitCode::FAILURE);
    }
    record.apply(host, &changes)?;
    println!("{}", engine.restart_advice(&changes));
    Ok(ExitCode::SUCCESS)
}

fn undo(
    host: &Host,
    engine: &Engine,
    options: &Options,
    record: Record,
) -> anyhow::Result<ExitCode> {
    if !record.is_stored() {
        let path = host.path(engine.record_path())?;
        println!("Nothing to undo: {} does not exist.", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    let changes = record.reverse(host)?;
    if changes.is_empty() {
        println!("The files are as they were. Only the record of `configure` is removed.");
    }
    show(host, &changes);
    if !is_confirmed(options.yes, &mut io::stdin().lock())? {
        return Ok(ExitCode::FAILURE);
    }
    for folder in record.undo(host, &changes)? {
        println!("Note: {} stays, because it is not empty.", folder.display());
    }
    println!("{}", engine.restart_advice(&changes));
    Ok(ExitCode::SUCCESS)
}

fn show(host: &Host, changes: &[Change]) {
    for change in changes {
        print!("{}", change.diff(host));
    }
}

/// Whether to apply the changes: `yes` says so, or the person at the terminal does.
fn is_confirmed(yes: bool, answers: &mut dyn BufRead) -> anyhow::Result<bool> {
    if yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        bail!(
            "cannot ask whether to apply these changes: the input is not a terminal. Nothing was changed; add --yes to apply them"
        );
    }
    print!("Apply? [y/N] ");
    io::stdout().flush().context("cannot ask whether to apply these changes")?;
    let mut answer = String::new();
    answers.read_line(&mut answer).context("cannot read the answer")?;
    let is_yes = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if !is_yes {
        println!("Nothing was changed.");
    }
    Ok(is_yes)
}

impl Engine {
    fn name(&self) -> &'static str {
        match self {
            Engine::Containerd { .. } => "containerd",
            Engine::Podman { .. } => "podman",
        }
    }

    /// The file that keeps what `configure` replaced. It is in a folder of the engine, because only root
    /// writes there: `--undo` writes files as root by what it reads from this file.
    fn record_path(&self) -> &'static Path {
        Path::new(match self {
            Engine::Containerd { .. } => "/etc/containerd/watchfire-mirror.undo.json",
            Engine::Podman { .. } => "/etc/containers/watchfire-mirror.undo.json",
        })
    }

    fn restart_advice(&self, changes: &[Change]) -> &'static str {
        let config = Path::new(containerd::CONFIG);
        match self {
            Engine::Containerd { .. } if changes.iter().any(|one| one.path == config) => {
                "Restart containerd: systemctl restart containerd. Containers keep running."
            }
            Engine::Containerd { .. } => {
                "containerd reads the files at its next pull. Nothing needs a restart."
            }
            Engine::Podman { .. } => {
                "podman, buildah and skopeo read the file when they start. If the API service of Podman runs, restart it: systemctl restart podman.service"
            }
        }
    }
}
