//! `watchfire mirror`: a pull-through mirror of container registries, and the commands around it.

mod run;

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
enum Command {}

/// Runs the command, or mirrors until a signal arrives.
pub fn run(arguments: Arguments) -> anyhow::Result<()> {
    match arguments.command {
        Some(command) => match command {},
        None => run::run(arguments.run),
    }
}
