//! Writes the manual pages of all commands and the completions of three shells into a folder, under
//! the names that a package installs.
//!
//! `cargo run -p watchfire-cli --example manual -- DIRECTORY`

use std::path::PathBuf;
use std::{env, fs, io};

use clap::Command;
use clap_complete::Shell;

fn main() -> io::Result<()> {
    let Some(directory) = env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::other("cannot write the manual: name the directory to write it to"));
    };
    let (pages, completions) = (directory.join("man"), directory.join("completions"));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    clap_mangen::generate_to(shown(watchfire_cli::command()), &pages)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut command = shown(watchfire_cli::command());
        clap_complete::generate_to(shell, &mut command, "watchfire", &completions)?;
    }
    Ok(())
}

/// The program without its hidden commands. The completions would offer them.
fn shown(program: Command) -> Command {
    let commands: Vec<Command> =
        program.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
    Command::new("watchfire")
        .version(env!("CARGO_PKG_VERSION"))
        .about(program.get_about().cloned().unwrap_or_default())
        .subcommand_required(true)
        .subcommands(commands)
}
