//! `make scale`: Watchfire with very many at once, both ends on one machine.
//!
//! The measuring process makes itself a network namespace, starts the server and the processes
//! that hold the clients, tells these what to do by lines of JSON, and adds up what they see.
//! Nothing outlives it: children are tethered, and the network goes with the last of them.

mod client;
pub mod clock;
mod crowd;
mod ground;
mod histogram;
pub mod kernel;
pub mod namespace;
mod orders;
pub mod report;
mod server;
mod stories;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use self::orders::Kind;
use self::report::Account;
use self::stories::{Run, Story};

/// What the page over all stories begins with.
const HEADING: &str = "# Watchfire at scale\n\nWritten by `make scale`; each story has a page of its own. Both ends of \
     every connection are on the one machine, in a network of their own, so a figure of CPU contains \
     the kernel's work for the receiver, and memory is of both ends where it does not say \
     otherwise.\n\n";

/// Which stories are run, how large, and where they are written.
#[derive(clap::Args, Clone, Debug)]
pub struct Settings {
    /// Stories to run; all of them by default.
    stories: Vec<Story>,
    /// Scale the numbers down to so many percent of the whole.
    #[arg(long, default_value_t = 100.0, value_parser = percent)]
    percent: f64,
    /// Server processes; by default as many as the limit of open files asks for.
    #[arg(long)]
    processes: Option<usize>,
    /// Start separate servers on ports of their own, with a room of their own each, instead of
    /// several processes behind one port.
    #[arg(long)]
    separate: bool,
    /// The Watchfire program; the one built beside this by default.
    #[arg(long)]
    watchfire: Option<PathBuf>,
    /// Folder of the servers that are compared.
    #[arg(long, default_value = "bench/peers")]
    peers: PathBuf,
    /// Folder for figures and logs, and for the pages of stories that are not whole.
    #[arg(long, default_value = "target/scale")]
    out: PathBuf,
    /// Folder for the pages and charts of whole stories.
    #[arg(long, default_value = "docs/scale")]
    docs: PathBuf,
    /// Be a process that holds clients of this kind, told by JSON lines on stdin.
    #[arg(long, hide = true)]
    clients: Option<Kind>,
}

/// Run the stories, or be a process of clients.
pub fn run(settings: &Settings) -> Result<ExitCode> {
    if let Some(kind) = settings.clients {
        return client::obey(kind).map(|()| ExitCode::SUCCESS);
    }
    if !namespace::is_inside() {
        return namespace::run_inside("scale", Some(namespace::MANY_TCP_BUCKETS));
    }
    namespace::prepare()?;
    let mut run = Run::prepare(settings)?;
    let stories = match &settings.stories[..] {
        [] => Story::ALL.to_vec(),
        named => named.to_vec(),
    };
    // Refuse before an hour of work, not after it.
    for story in &stories {
        run.check(*story)?;
    }
    let mut ended = ExitCode::SUCCESS;
    for story in stories {
        match run.tell(story) {
            Ok(account) => {
                account.write(&settings.docs, &settings.out)?;
                println!("{}", account.terminal());
            }
            Err(error) => {
                eprintln!("{story} did not run: {error:#}");
                ended = ExitCode::FAILURE;
            }
        }
    }
    write_summary(settings)?;
    Ok(ended)
}

/// From all stories that were run whole, now or earlier.
fn write_summary(settings: &Settings) -> Result<()> {
    let read = |story: &Story| Account::read(&settings.out, &story.to_string());
    let accounts: Vec<_> = Story::ALL.iter().filter_map(read).collect();
    let whole: Vec<_> = accounts.iter().filter(|account| account.is_whole).cloned().collect();
    report::put(&settings.out, "README.md", &report::summary(HEADING, &accounts))?;
    if !whole.is_empty() {
        report::put(&settings.docs, "README.md", &report::summary(HEADING, &whole))?;
    }
    Ok(())
}

/// The program that was built beside this one.
pub fn watchfire_beside() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().map(Path::to_path_buf).context("no folder")?.join("watchfire"))
}

/// A part of the whole, in percent.
pub fn percent(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent),
        Ok(_) => Err("above 0, at most 100".into()),
        Err(error) => Err(format!("{error}")),
    }
}
