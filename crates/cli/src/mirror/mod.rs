//! `watchfire mirror`: a pull-through mirror of container registries, and the commands around it.

mod cid;
mod configure;
mod preload;
mod run;
mod status;

use std::fmt::Write as _;
use std::process::ExitCode;

use watchfire_mirror::upstream::Registry;

/// Arguments of `watchfire mirror`: without a command, it mirrors.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::Mirroring,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make a container engine of this host pull through the mirror.
    Configure(configure::Arguments),
    /// Print a new key for a fleet of mirrors: the hosts with the same key share images.
    Key,
    /// Show what a running mirror has, and what it fetches from where.
    Status(status::Arguments),
    /// Load images into the store of a running mirror, before anybody pulls them.
    Preload(preload::Arguments),
    /// Print the CIDs of an image that a running mirror has: of its manifest, and of each layer.
    Cid(cid::Arguments),
}

/// Runs the command, or mirrors until a signal arrives.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Some(Command::Configure(arguments)) => configure::run(&arguments),
        Some(Command::Key) => print_key().map(|()| ExitCode::SUCCESS),
        Some(Command::Status(arguments)) => status::run(&arguments),
        Some(Command::Preload(arguments)) => preload::run(&arguments),
        Some(Command::Cid(arguments)) => cid::run(&arguments),
        None => {
            let cpu_profile = arguments.run.cpu_profile.clone();
            cpu_profile.around("mirror", || run::run(arguments.run)).map(|()| ExitCode::SUCCESS)
        }
    }
}

/// Prints a new key, in the format of private IPFS networks.
fn print_key() -> anyhow::Result<()> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| {
        anyhow::anyhow!(
            "cannot generate a key: the operating system returned no random bytes: {error}"
        )
    })?;
    let digits = key.iter().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("writing to a string never fails");
        digits
    });
    println!("/key/swarm/psk/1.0.0/\n/base16/\n{digits}");
    Ok(())
}

/// Reads the option that names a running mirror.
fn parse_address(text: &str) -> Result<Registry, String> {
    let is_url = text.starts_with("http://") || text.starts_with("https://");
    match text.parse() {
        Ok(mirror) if is_url => Ok(mirror),
        _ => Err("expected a URL such as http://127.0.0.1:5000".into()),
    }
}
