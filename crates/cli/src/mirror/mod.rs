//! `watchfire mirror`: a pull-through mirror of container registries, and the commands around it.

mod address;
mod configure;
mod key;
mod preload;
mod run;
mod status;

use std::process::ExitCode;

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
}

/// Runs the command, or mirrors until a signal arrives.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Some(Command::Configure(arguments)) => configure::run(&arguments),
        Some(Command::Key) => key::print().map(|()| ExitCode::SUCCESS),
        Some(Command::Status(arguments)) => status::run(&arguments),
        Some(Command::Preload(arguments)) => preload::run(&arguments),
        None => {
            let cpu_profile = arguments.run.cpu_profile.clone();
            cpu_profile.around("mirror", || run::run(arguments.run)).map(|()| ExitCode::SUCCESS)
        }
    }
}
