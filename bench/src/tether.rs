use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Becomes another program whose end is tied to its parent's.
///
/// The kernel keeps the tie across `exec`, so a server that knows nothing of us still ends when the
/// measuring process is interrupted or killed, and nothing has to be searched for by name.
#[derive(clap::Args)]
pub struct Tether {
    /// Process id of the parent.
    parent: i32,
    /// The program and its arguments.
    #[arg(trailing_var_arg = true, required = true)]
    program: Vec<OsString>,
}

impl Tether {
    pub fn become_program(self) -> Result<Infallible> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the tie was made.
        if getppid().map(Pid::as_raw_pid) != Some(self.parent) {
            bail!("the parent has gone");
        }
        let mut program = self.program.into_iter();
        let name = program.next().expect("clap asks for one");
        let error = Command::new(&name).args(program).exec();
        Err(error).with_context(|| format!("cannot run {}", name.display()))
    }
}

/// A command for `program` that will be tethered to this process.
pub fn tethered(program: impl Into<OsString>) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("tether").arg(std::process::id().to_string()).arg("--").arg(program.into());
    Ok(command)
}

/// A child that is ended when this is dropped.
pub struct Tethered(Child);

impl Tethered {
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Tethered)
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Tethered {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
