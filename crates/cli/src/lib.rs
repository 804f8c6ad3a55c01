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
mod demo;
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
#[cfg(feature = "lab")]
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
#[cfg(not(all(feature = "desktop", feature = "lab", feature = "mirror", feature = "top")))]
mod not_built;
mod operator;
mod page_clients;
mod progress;
mod publish;
mod report;
mod secret;
mod serve;
mod serving;
mod share;
mod signals;
#[cfg(feature = "desktop")]
mod sprites;
#[cfg(feature = "top")]
mod top;
mod traces;
mod visible;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
#[cfg(not(feature = "lab"))]
use not_built as lab;
#[cfg(not(feature = "mirror"))]
use not_built as mirror;
#[cfg(not(feature = "desktop"))]
use not_built as sprites;
#[cfg(not(feature = "top"))]
use not_built as top;
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
    /// Show everything at once: a server, a page in the browser, 200 users and the operator's page, until Ctrl-C.
    Demo(demo::Arguments),
    /// Share files and directories in place, until Ctrl-C.
    Share(share::Arguments),
    /// Fetch a file or directory by its link or CID, and write it to disk.
    Get(get::Arguments),
    /// Fetch content by its link, keep it, and serve it to others until Ctrl-C.
    Hold(hold::Arguments),
    /// Mirror container registries for this host.
    Mirror(Box<mirror::Arguments>),
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
    /// Draw a chart of past days from rows that the operator's page has saved.
    Report(report::Arguments),
    /// Put sprites on this desktop (X11, or XWayland) that neighbours throw to each other, until Ctrl-C.
    Sprites(sprites::Arguments),
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

/// Runs the command that the process's arguments name, and returns the exit code.
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
        Verb::Demo(arguments) => demo::run(&arguments),
        Verb::Share(arguments) => arguments.cpu_profile.around("share", || share::run(&arguments)),
        Verb::Get(arguments) => arguments.cpu_profile.around("get", || get::run(&arguments)),
        Verb::Hold(arguments) => arguments.cpu_profile.around("hold", || hold::run(&arguments)),
        Verb::Mirror(arguments) => mirror::run(*arguments),
        Verb::Cid(arguments) => cid::run(&arguments),
        Verb::Car(arguments) => car::run(&arguments),
        Verb::Load(arguments) => {
            arguments.cpu_profile.clone().around("load", || load::run(arguments))
        }
        Verb::Lab(arguments) => lab::run(arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Top(arguments) => top::run(&arguments),
        Verb::Report(arguments) => report::run(&arguments).map(|()| ExitCode::SUCCESS),
        Verb::Sprites(arguments) => sprites::run(&arguments),
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
    use clap::{CommandFactory as _, Parser as _};

    use super::Arguments;

    #[test]
    fn the_arguments_of_all_commands_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_server_has_one_name_and_the_names_of_before_still_work() {
        for (verb, name, before) in [
            ("publish rooms:lobby note {}", "--to", &["--url "][..]),
            ("load users.toml", "--to", &["--target "]),
            ("health", "--to", &[""]),
            #[cfg(feature = "top")]
            ("top", "--operator", &["--url ", "--to "]),
            ("doctor", "--operator", &["--url ", "--to "]),
        ] {
            for option in before.iter().copied().chain([&*format!("{name} ")]) {
                let line = format!("watchfire {verb} {option}http://localhost:1");
                assert!(Arguments::try_parse_from(line.split(' ')).is_ok(), "{line}");
            }
            let help = format!("watchfire {verb} --help");
            let help = Arguments::try_parse_from(help.split(' ')).err().unwrap().to_string();
            assert!(help.contains(&format!("{name} ")), "{help}");
            assert!(!["--url", "--target", "[SERVER]"].iter().any(|name| help.contains(name)));
        }
    }
}
