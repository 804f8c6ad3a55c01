//! Bare servers that experiments compare Watchfire with. Nothing here links a crate of the server.

mod bare;
mod bare_polls;
mod baseline;
mod limits;
mod message;
mod poller;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "watchfire-bench",
    about = "Bare servers that experiments compare Watchfire with."
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run the baseline: an epoll broadcaster whose only state is its list of sockets.
    Bare(bare::Settings),
    /// Run the baseline of long polls: it parks polls, and answers short requests.
    BarePolls(bare_polls::Settings),
}

fn main() -> ExitCode {
    let Err(error) = match Arguments::parse().verb {
        Verb::Bare(settings) => bare::serve(&settings),
        Verb::BarePolls(settings) => bare_polls::serve(&settings),
    };
    eprintln!("watchfire-bench: {error:#}");
    ExitCode::FAILURE
}
