//! `watchfire top` in a program without the feature `top`.

use std::ffi::OsString;
use std::process::ExitCode;

/// Arguments of `watchfire top`. They have no effect in this program.
#[derive(clap::Args)]
pub struct Arguments {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    ignored: Vec<OsString>,
}

/// Fail, and say which build has the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let server = arguments.ignored.last().map_or("a server".into(), |last| last.to_string_lossy());
    anyhow::bail!(
        "cannot watch {server}: this program was built without `top`; \
         build one with it: cargo build --release -p watchfire-cli"
    )
}
