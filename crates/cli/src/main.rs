//! `watchfire`: one binary, many verbs.

mod car;
mod cid;
mod content_options;
mod doctor;
mod fetching;
mod get;
mod get_part;
mod hold;
mod host_options;
mod key_hiding;
mod lab;
mod link;
mod load;
mod memory;
mod progress;
mod serve;
mod serving;
mod share;
mod signals;
mod size;
mod visiting;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A page that burns as long as someone watches it.
#[derive(Parser)]
#[command(name = "watchfire", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run the server that introduces browsers to one another.
    Serve(serve::Arguments),
    /// Share files and directories from where they lie, until Ctrl-C.
    Share(share::Arguments),
    /// Fetch what a link or a CID names, and write it out.
    Get(get::Arguments),
    /// Fetch what links name, keep it, and serve it on until Ctrl-C.
    Hold(hold::Arguments),
    /// Tell the CIDs of files and directories, without sharing them.
    Cid(cid::Arguments),
    /// Put content into an archive (CAR), or take it out of one.
    Car(car::Arguments),
    /// Put a server under load: many simulated users by a scenario, and what they felt.
    Load(load::Arguments),
    /// Make experiments.
    Lab(lab::Arguments),
    /// Tell which limit of this machine bites first, and the line that raises it.
    Doctor(doctor::Arguments),
    /// A part of a load; started by `load` itself.
    #[command(hide = true)]
    LoadWorker,
}

fn main() -> ExitCode {
    if let Err(error) = key_hiding::hide_keys() {
        eprintln!("watchfire: the key of the link cannot be hidden from others here: {error}");
        return ExitCode::FAILURE;
    }
    let Arguments { verb } = Arguments::parse();
    if matches!(verb, Verb::Share(_) | Verb::Get(_) | Verb::Hold(_)) {
        memory::keep_pieces();
    }
    let result = match verb {
        Verb::Serve(arguments) => serve::run(arguments).map(|()| ExitCode::SUCCESS),
        Verb::Share(arguments) => share::run(&arguments),
        Verb::Get(arguments) => get::run(&arguments),
        Verb::Hold(arguments) => hold::run(&arguments),
        Verb::Cid(arguments) => cid::run(&arguments),
        Verb::Car(arguments) => car::run(&arguments),
        Verb::Load(arguments) => load::run(arguments),
        Verb::Lab(arguments) => lab::run(arguments),
        Verb::Doctor(arguments) => Ok(doctor::run(&arguments)),
        Verb::LoadWorker => load::work().map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("watchfire: {error:#}");
            ExitCode::FAILURE
        }
    }
}
