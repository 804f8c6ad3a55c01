//! The commands that this program was built without.

use std::borrow::Borrow;
use std::ffi::OsString;
use std::process::ExitCode;

/// Arguments of such a command. They have no effect in this program.
#[derive(clap::Args)]
pub struct Arguments {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    _ignored: Vec<OsString>,
}

/// Fails, and says which build has the command.
pub fn run(_: impl Borrow<Arguments>) -> anyhow::Result<ExitCode> {
    let name = std::env::args_os().nth(1).unwrap_or_default();
    anyhow::bail!(
        "cannot run `watchfire {}`: this program was built without it; build one that has it: \
         cargo build --release --features desktop -p watchfire-cli",
        name.to_string_lossy()
    )
}
