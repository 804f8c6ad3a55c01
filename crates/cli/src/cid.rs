//! `watchfire cid`: prints the CID of content without sharing it.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;
use watchfire_content::{Block, FileBuilder, Root};
use watchfire_store::{ImportOptions, StoreError, import, names, private_cid_of};

use crate::content_options::ContentOptions;
use crate::key_hiding::hidden_key;
use crate::link::Link;
use crate::output;
use crate::progress::{ProgressLine, Step};

/// Bytes of the standard input that are read in one call.
const READ_BYTES: usize = 1024 * 1024;

/// Arguments of `watchfire cid`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Files and directories; `-` is the standard input, as a file.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    content: ContentOptions,
    /// Print the CIDs of the paths as private pages with the key of this link. The link opens this
    /// content if the CID is the same.
    #[arg(long, value_name = "LINK", conflicts_with_all = ["profile", "chunk", "links"])]
    private: Option<Link>,
    /// Print JSON, one object per line.
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print only the CIDs, without progress.
    #[arg(long, short)]
    quiet: bool,
}

/// Prints the CID of each path. A path that fails is reported, and the others still get their CID.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    output::check()?;
    let mut has_failed = false;
    for path in &arguments.paths {
        match root_of(path, arguments) {
            Ok(named) => print(path, &named, arguments)?,
            Err(error) => {
                has_failed = true;
                eprintln!("watchfire: {}", crate::describe(&error));
            }
        }
    }
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The CID of a path, and the bytes of its files.
struct Named {
    root: Root,
    bytes: u64,
}

fn print(path: &Path, named: &Named, arguments: &Arguments) -> io::Result<()> {
    let Named { root, bytes } = named;
    let mut out = io::stdout().lock();
    let name = path.display().to_string();
    if arguments.json {
        let line = json!({
            "path": name,
            "cid": root.cid.to_string(),
            "bytes": bytes,
            "dag_bytes": root.dag_bytes,
        });
        writeln!(out, "{line}")
    } else if arguments.quiet {
        writeln!(out, "{}", root.cid)
    } else {
        writeln!(out, "{}  {}", root.cid, names::shown(&name))
    }
}

fn root_of(path: &Path, arguments: &Arguments) -> anyhow::Result<Named> {
    let options = arguments.content.import_options();
    let mut line = ProgressLine::start(arguments.quiet);
    if let Some(link) = &arguments.private {
        let key = link.key.clone().map_or_else(hidden_key, |key| Ok(Some(key)))?;
        let key = key.context("the link has no key; a link with a key ends with #key=…")?;
        let mut step = Step::default();
        let root = private_cid_of(path, &key, options.skips_hidden, &mut |bytes| {
            step.bytes += bytes;
            line.show(&step);
        })?;
        return Ok(Named { root, bytes: arguments.content.bytes_at(path) });
    }
    if path.as_os_str() == "-" {
        return of_input(&mut io::stdin().lock(), &options, &mut line).context("standard input");
    }
    let total_bytes = line.is_seen().then(|| arguments.content.bytes_at(path));
    let mut step = Step { total_bytes, ..Step::default() };
    let root = import(path, &options, &mut |imported| {
        step.bytes += imported.place.map_or(0, |place| place.bytes);
        line.show(&step);
        Ok(())
    })?;
    Ok(Named { root, bytes: step.bytes })
}

fn of_input(
    input: &mut impl Read,
    options: &ImportOptions,
    line: &mut ProgressLine,
) -> anyhow::Result<Named> {
    let mut builder = FileBuilder::new(options.profile)?;
    let mut discard = |_: Block| Ok::<(), StoreError>(());
    let mut piece = vec![0; READ_BYTES];
    let mut step = Step::default();
    loop {
        match input.read(&mut piece) {
            Ok(0) => break,
            Ok(len) => {
                builder.write(&piece[..len], &mut discard)?;
                step.bytes += len as u64;
                line.show(&step);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Named { root: builder.finish(&mut discard)?, bytes: step.bytes })
}
