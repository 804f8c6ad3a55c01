use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Becomes another program, which the kernel kills when its parent ends.
///
/// The kernel keeps this setting across `exec`. So a server ends when the measuring process is
/// interrupted or killed, and no process has to be found by name.
#[derive(clap::Args)]
pub struct ParentDeathGuard {
    /// Process id of the parent.
    parent: i32,
    /// The program and its arguments.
    #[arg(trailing_var_arg = true, required = true)]
    program: Vec<OsString>,
}

impl ParentDeathGuard {
    pub fn become_program(self) -> Result<Infallible> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before this call.
        if getppid().map(Pid::as_raw_pid) != Some(self.parent) {
            bail!("the parent process has ended");
        }
        let mut program = self.program.into_iter();
        let name = program.next().expect("clap requires a program");
        let error = Command::new(&name).args(program).exec();
        Err(error).with_context(|| format!("cannot run {}", name.display()))
    }
}

/// A command for `program` that ends when this process does.
pub fn guarded_command(program: impl Into<OsString>) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("parent-death-guard")
        .arg(std::process::id().to_string())
        .arg("--")
        .arg(program.into());
    Ok(command)
}

/// A child process that is killed when this is dropped.
pub struct GuardedChild(Child);

impl GuardedChild {
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(GuardedChild)
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for GuardedChild {
    fn drop(&mut self) {
        // Both fail only if the child has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
