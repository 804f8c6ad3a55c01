//! `watchfire`: the command-line program. It is a library so that `examples/manual.rs` can describe the
//! commands without a part of its own in the binary.

#[macro_use]
mod output;

mod car;
mod cid;
mod content_options;
#[cfg(feature = "profiles")]
mod cpu_profile;
#[cfg(not(feature = "profiles"))]
#[path = "cpu_profile/not_built.rs"]
mod cpu_profile;
mod dashboard;
mod doctor;
mod fetching;
mod get;
mod get_part;
mod health;
mod hold;
mod hold_commands;
mod host_options;
#[cfg(feature = "lab")]
mod hosts;
mod http_client;
mod key_hiding;
mod lab;
mod link;
#[cfg(any(feature = "lab", feature = "mirror"))]
mod live_lines;
mod live_pages;
mod load;
#[cfg(feature = "lab")]
mod load_agents;
mod memory;
#[cfg(feature = "mirror")]
mod mirror;
mod new;
mod operator;
mod page_clients;
mod progress;
mod publish;
mod secret;
mod serve;
mod serving;
mod share;
mod signals;
#[cfg(feature = "top")]
mod top;
#[cfg(not(feature = "top"))]
#[path = "top/not_built.rs"]
mod top;
mod traces;
mod visible;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use watchfire_store::names;

/// Share pages that live while someone has them open: the server, the tools and the load generator.
#[derive(Parser)]
#[command(name = "watchfire", version)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run the server that connects browsers to each other.
    Serve(serve::Arguments),
    /// Share files and directories in place, until Ctrl-C.
    Share(share::Arguments),
    /// Fetch a file or directory by its link or CID, and write it to disk.
    Get(get::Arguments),
    /// Fetch content by its link, keep it, and serve it to others until Ctrl-C.
    Hold(hold::Arguments),
    /// Mirror container registries for this host.
    #[cfg(feature = "mirror")]
    Mirror(mirror::Arguments),
    /// Print the CIDs of files and directories without sharing them.
    Cid(cid::Arguments),
    /// Export content to an archive (CAR), or import it from one.
    Car(car::Arguments),
    /// Put a server under load with simulated users, and report how it responds.
    Load(load::Arguments),
    /// Run experiments.
    Lab(lab::Arguments),
    /// Show which system limit you will reach first, and how to raise it; or the state of a running server.
    Doctor(doctor::Arguments),
    /// Watch a running server in the terminal: figures, connections, topics, processes, events.
    Top(top::Arguments),
    /// Check whether a server answers; the exit code is 0 if it does.
    Health(health::Arguments),
    /// Publish an event to the subscribers of a topic, through the HTTP API of a server.
    Publish(publish::Arguments),
    /// Write a project with a channel server of its own, in Rust.
    New(new::Arguments),
    /// A worker process of a load; `load` starts it.
    #[command(hide = true)]
    LoadWorker,
}

/// The commands and their arguments, for manual pages and completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Run the command that the process's arguments name, and return the exit code.
pub fn run() -> ExitCode {
    output::close_at_exec();
    if let Err(error) = key_hiding::hide_keys() {
        eprintln!("watchfire: cannot hide the key of the link from other users: {error}");
        return ExitCode::FAILURE;
    }
    let Arguments { verb } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // The text may be the help that was asked for.
        Err(error) if error.use_stderr() => error.exit(),
        Err(help) => {
            output::note(help.print());
            return output::finish(ExitCode::SUCCESS);
        }
    };
    if matches!(verb, Verb::Share(_) | Verb::Get(_) | Verb::Hold(_)) {
        memory::keep_pieces();
    }
    let result = match verb {
        Verb::Serve(arguments) => serve::run(arguments).map(|()| ExitCode::SUCCESS),
        Verb::Share(arguments) => arguments.cpu_profile.around("share", || share::run(&arguments)),
        Verb::Get(arguments) => arguments.cpu_profile.around("get", || get::run(&arguments)),
        Verb::Hold(arguments) => arguments.cpu_profile.around("hold", || hold::run(&arguments)),
        #[cfg(feature = "mirror")]
        Verb::Mirror(arguments) => mirror::run(arguments),
        Verb::Cid(arguments) => cid::run(&arguments),
        Verb::Car(arguments) => car::run(&arguments),
        Verb::Load(arguments) => {
            arguments.cpu_profile.clone().around("load", || load::run(arguments))
        }
        Verb::Lab(arguments) => lab::run(arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Top(arguments) => top::run(&arguments),
        Verb::Health(arguments) => health::run(&arguments).map(|()| ExitCode::SUCCESS),
        Verb::Publish(arguments) => publish::run(&arguments).map(|()| ExitCode::SUCCESS),
        Verb::New(arguments) => new::run(&arguments).map(|()| ExitCode::SUCCESS),
        Verb::LoadWorker => load::work().map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => output::finish(code),
        Err(error) => {
            eprintln!("watchfire: {}", describe(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes. A cause that is in the text before it is not repeated. A name in it cannot
/// control the terminal.
fn describe(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    let lines: Vec<_> = text.split('\n').map(names::shown).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Arguments;

    #[test]
    fn the_arguments_of_all_commands_are_consistent() {
        Arguments::command().debug_assert();
    }
}
