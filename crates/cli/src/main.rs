//! `watchfire`: one binary, many verbs.

mod serve;

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
}

fn main() -> ExitCode {
    let Arguments { verb } = Arguments::parse();
    let result = match verb {
        Verb::Serve(arguments) => serve::run(arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("watchfire: {error:#}");
            ExitCode::FAILURE
        }
    }
}
