//! `make bench`: what a socket costs, measured from outside the server, side by side with others.
//! `make scale` and `make bench-swarm`: very many sockets, and how a file spreads.
//!
//! One program, several processes. `marks` is the one to type; it starts the others: a server
//! (Watchfire, the `bare` floor of this crate, or a peer from npm) and the `client` that opens the
//! sockets. Nothing here links a crate of the server, so what is measured is what a stranger meets.

mod bare;
mod client;
mod limits;
mod log;
mod machine;
mod marks;
mod measure;
mod message;
mod poller;
mod process;
mod progress;
mod report;
mod scale;
mod servers;
mod swarm;
mod tether;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "watchfire-bench", about = "What a socket costs, measured from outside.")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Measure every server and compare with the marks.
    Marks(measure::Plan),
    /// The floor: an epoll broadcaster with no state beyond its list of sockets.
    Bare(bare::Settings),
    /// Watchfire with very many at once, both ends on this machine.
    Scale(scale::Settings),
    /// A file from one to many, beside kubo and plain HTTP.
    Swarm(swarm::Settings),
    /// Open sockets as told by JSON lines on stdin, report by JSON lines on stdout.
    #[command(hide = true)]
    Client,
    /// Become another program that ends when its parent does.
    #[command(hide = true)]
    Tether(tether::Tether),
}

fn main() -> ExitCode {
    let ended = match Arguments::parse().verb {
        Verb::Marks(plan) => measure::marks_of(&plan),
        Verb::Bare(settings) => bare::serve(&settings).map(|never| match never {}),
        Verb::Scale(settings) => scale::run(&settings),
        Verb::Swarm(settings) => swarm::run(&settings),
        Verb::Client => client::obey().map(|()| ExitCode::SUCCESS),
        Verb::Tether(tether) => tether.become_program().map(|never| match never {}),
    };
    ended.unwrap_or_else(|error| {
        eprintln!("watchfire-bench: {error:#}");
        ExitCode::FAILURE
    })
}
