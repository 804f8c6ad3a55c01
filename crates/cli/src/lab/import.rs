//! `watchfire lab import`: p2plab's definitions as an experiment file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use watchfire_lab::{Experiment, Source, Substitute, import};
use watchfire_report::units::parse_bytes;

use super::experiment::read_text;
use crate::output::ResultFile;

/// Arguments of `watchfire lab import`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Clusters and scenarios, which are combined, or experiments, as JSON; `cue export` writes it from CUE.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Use a size, or a local OCI layout, in place of an image of a registry; can be repeated.
    #[arg(long, value_name = "NAME=SIZE|LAYOUT", value_parser = substitute)]
    object: Vec<(String, Substitute)>,
    /// Write the experiment to this file; the default is the standard output.
    #[arg(long, short, value_name = "FILE.toml")]
    output: Option<PathBuf>,
}

/// Writes the experiment, and prints a note about each part without a counterpart.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let files = arguments.files.iter().map(|file| read_text(file));
    let files = files.collect::<anyhow::Result<Vec<_>>>()?;
    let sources: Vec<_> = files.iter().map(|(name, text)| Source { name, text }).collect();
    let substitutes: BTreeMap<String, Substitute> = arguments.object.iter().cloned().collect();
    let imported = import(&sources, &substitutes)?;
    // A definition that cannot run here is an error now, not when it runs.
    Experiment::parse("the imported experiment", &imported.text)?;
    match &arguments.output {
        Some(file) => ResultFile::open(file)?.write(&imported.text)?,
        None => print!("{}", imported.text),
    }
    for note in &imported.notes {
        eprintln!("note: {note}");
    }
    Ok(ExitCode::SUCCESS)
}

fn substitute(text: &str) -> Result<(String, Substitute), String> {
    let (name, value) = text.split_once('=').ok_or("write one like golang=300MiB")?;
    let substitute = match parse_bytes(value) {
        Ok(bytes) => Substitute::Bytes(bytes),
        Err(_) => Substitute::Layout(value.to_owned()),
    };
    Ok((name.to_owned(), substitute))
}
