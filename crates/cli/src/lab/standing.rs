//! `watchfire lab up`, `ps`, `swap` and `down`: clusters that stay.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use watchfire_lab::{Builds, Query, Standing, StandingNode};
use watchfire_report::units::binary_bytes;

use super::experiment::{self, builds, runs};

/// The folder in which the lab keeps its clusters and its builds.
#[derive(clap::Args)]
struct Place {
    /// The folder of runs, standing clusters and built programs.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Arguments of `watchfire lab up`.
#[derive(clap::Args)]
pub struct UpArguments {
    /// A file with a cluster; see docs/reference/experiments.md.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The cluster, if the file has several.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// The name for further commands.
    #[arg(long, value_name = "NAME", default_value = "lab")]
    name: String,
    #[command(flatten)]
    place: Place,
}

/// Arguments of `watchfire lab ps`.
#[derive(clap::Args)]
pub struct PsArguments {
    #[command(flatten)]
    place: Place,
}

/// Arguments of `watchfire lab swap`.
#[derive(clap::Args)]
pub struct SwapArguments {
    /// The name of the cluster.
    #[arg(long, value_name = "NAME", default_value = "lab")]
    on: String,
    /// The nodes, such as a name, a label, or (not 'seeder').
    #[arg(value_name = "QUERY", value_parser = |text: &str| Query::parse(text))]
    query: Query,
    /// A git reference, or the path of a program, such as ./watchfire.
    #[arg(value_name = "BUILD")]
    build: String,
    #[command(flatten)]
    place: Place,
}

/// Arguments of `watchfire lab down`.
#[derive(clap::Args)]
pub struct DownArguments {
    /// The name of the cluster.
    #[arg(value_name = "NAME", default_value = "lab")]
    name: String,
    #[command(flatten)]
    place: Place,
}

impl Place {
    fn runs(&self) -> anyhow::Result<PathBuf> {
        runs(self.folder.as_deref())
    }

    fn builds(&self) -> anyhow::Result<Builds> {
        builds(self.folder.as_deref())
    }

    fn open(&self, name: &str) -> anyhow::Result<Standing> {
        Ok(Standing::open(name, &self.runs()?, std::env::current_exe()?, self.builds()?)?)
    }
}

/// Opens a standing cluster, for `lab run --on`.
pub fn open(name: &str, folder: Option<PathBuf>) -> anyhow::Result<Standing> {
    Place { folder }.open(name)
}

/// Starts the nodes of a cluster that stays.
pub fn up(arguments: &UpArguments) -> anyhow::Result<ExitCode> {
    let UpArguments { file, cluster, name, place } = arguments;
    let (runs, program) = (place.runs()?, std::env::current_exe()?);
    Standing::up(name, file, cluster.as_deref(), &runs, program, place.builds()?)?;
    show(&runs, Some(name))
}

/// Lists the nodes of all standing clusters.
pub fn ps(arguments: &PsArguments) -> anyhow::Result<ExitCode> {
    show(&arguments.place.runs()?, None)
}

/// Replaces the program of some nodes, while the others run on.
pub fn swap(arguments: &SwapArguments) -> anyhow::Result<ExitCode> {
    let SwapArguments { on, query, build, place } = arguments;
    let build = experiment::build(build)?;
    let nodes = place.open(on)?.swap(query, &build)?;
    println!("{} replaced: {}", nodes.len(), nodes.join(", "));
    Ok(ExitCode::SUCCESS)
}

/// Ends a standing cluster.
pub fn down(arguments: &DownArguments) -> anyhow::Result<ExitCode> {
    Standing::down(&arguments.name, &arguments.place.runs()?)?;
    Ok(ExitCode::SUCCESS)
}

fn show(runs: &Path, only: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut rows = vec![
        ["CLUSTER", "NODE", "ADDRESS", "MEMORY", "CPU", "COMMIT", "PROGRAM"].map(str::to_owned),
    ];
    for (cluster, nodes) in Standing::list(runs)? {
        if only.is_none_or(|only| only == cluster) {
            rows.extend(nodes.into_iter().map(|node| row(&cluster, node)));
        }
    }
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

fn row(cluster: &str, node: StandingNode) -> [String; 7] {
    let (memory, cpu) = match node.usage {
        Some((cpu, memory)) => (binary_bytes(memory), format!("{:.2} s", cpu.as_secs_f64())),
        None => ("ended".to_owned(), "-".to_owned()),
    };
    let commit = node.commit.map_or("-".to_owned(), |commit| commit.chars().take(12).collect());
    let program = node.program.display().to_string();
    [cluster.to_owned(), node.name, node.address.to_string(), memory, cpu, commit, program]
}
