//! `make bench-recovery`: clients that were cut off. `bare` and `bare-polls` are servers that experiments compare
//! Watchfire with.
//!
//! Nothing here links a crate of the server, so it measures what any client would see.

mod bare;
mod bare_polls;
mod baseline;
mod cluster;
mod limits;
mod log;
mod message;
mod parent_death_guard;
mod poller;
mod process;
mod progress;
mod report;
mod scale;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "watchfire-bench",
    about = "Measure Watchfire from outside, beside other servers."
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
    /// Run the clients of several machines, controlled by JSON lines on stdin.
    #[command(hide = true)]
    Members,
    /// Cut clients off, and check that they get the messages that they missed, beside Centrifugo.
    Recovery(cluster::Settings),
    /// Write the page and the picture of a stored report again.
    Draw(report::Settings),
    /// Run another program that ends when its parent does.
    #[command(hide = true)]
    ParentDeathGuard(parent_death_guard::ParentDeathGuard),
}

fn main() -> ExitCode {
    let ended = match Arguments::parse().verb {
        Verb::Bare(settings) => bare::serve(&settings).map(|never| match never {}),
        Verb::BarePolls(settings) => bare_polls::serve(&settings).map(|never| match never {}),
        Verb::Members => scale::run_members().map(|()| ExitCode::SUCCESS),
        Verb::Recovery(settings) => cluster::run(&settings),
        Verb::Draw(settings) => report::draw(&settings),
        Verb::ParentDeathGuard(guard) => guard.become_program().map(|never| match never {}),
    };
    ended.unwrap_or_else(|error| {
        eprintln!("watchfire-bench: {error:#}");
        ExitCode::FAILURE
    })
}
