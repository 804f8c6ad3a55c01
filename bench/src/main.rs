//! `make bench`: the cost of a socket, measured from outside the server, beside other servers.
//! `make bench-cluster`: several machines.
//!
//! One program, several processes. `targets` starts a server (Watchfire, the baseline `bare` of
//! this crate, or an npm server) and the `client` that opens the sockets. Nothing here links a
//! crate of the server, so it measures what any client would see.

mod bare;
mod bare_polls;
mod client;
mod cluster;
mod limits;
mod log;
mod measure;
mod message;
mod parent_death_guard;
mod poller;
mod process;
mod progress;
mod report;
mod scale;
mod servers;

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
    /// Measure every server, and compare the results with the targets.
    Targets(measure::Plan),
    /// Run the baseline: an epoll broadcaster whose only state is its list of sockets.
    Bare(bare::Settings),
    /// Run the baseline of long polls: it parks polls, and answers short requests.
    BarePolls(bare_polls::Settings),
    /// Run the clients of several machines, controlled by JSON lines on stdin.
    #[command(hide = true)]
    Members,
    /// Measure several machines that form one server, beside Centrifugo and Socket.IO.
    Cluster(cluster::Settings),
    /// Open sockets by JSON commands on stdin, and report as JSON lines on stdout.
    #[command(hide = true)]
    Client,
    /// Write the page and the picture of a stored report again.
    Draw(report::Settings),
    /// Run another program that ends when its parent does.
    #[command(hide = true)]
    ParentDeathGuard(parent_death_guard::ParentDeathGuard),
}

fn main() -> ExitCode {
    let ended = match Arguments::parse().verb {
        Verb::Targets(plan) => measure::run(&plan),
        Verb::Bare(settings) => bare::serve(&settings).map(|never| match never {}),
        Verb::BarePolls(settings) => bare_polls::serve(&settings).map(|never| match never {}),
        Verb::Members => scale::run_members().map(|()| ExitCode::SUCCESS),
        Verb::Cluster(settings) => cluster::run(&settings),
        Verb::Draw(settings) => report::draw(&settings),
        Verb::Client => client::run().map(|()| ExitCode::SUCCESS),
        Verb::ParentDeathGuard(guard) => guard.become_program().map(|never| match never {}),
    };
    ended.unwrap_or_else(|error| {
        eprintln!("watchfire-bench: {error:#}");
        ExitCode::FAILURE
    })
}
