//! `watchfire`: the command-line program.

use std::process::ExitCode;

fn main() -> ExitCode {
    watchfire_cli::run()
}
