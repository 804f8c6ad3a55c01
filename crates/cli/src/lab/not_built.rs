//! The commands of `watchfire lab` in a program without the feature `lab`.

use std::ffi::OsString;
use std::process::ExitCode;

/// Arguments of a simulation. They have no effect in this program.
#[derive(clap::Args)]
pub struct Arguments {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    ignored: Vec<OsString>,
}

pub use self::{
    Arguments as FleetArguments, Arguments as SwarmArguments, run as run_fleet, run as run_swarm,
};

/// Fail, and say which build has the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let scenario =
        arguments.ignored.first().map_or("a scenario".into(), |first| first.to_string_lossy());
    anyhow::bail!(
        "cannot simulate {scenario}: this program was built without the simulator; \
         build one with it: cargo build --release -p watchfire-cli"
    )
}
