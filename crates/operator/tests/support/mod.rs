//! The program `test-server` as a process.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// A process, which is killed at the end.
pub struct Program {
    pub child: Child,
    pub address: SocketAddr,
    /// The operator's listener.
    pub admin: SocketAddr,
}

impl Program {
    /// A command with these settings in TOML.
    pub fn command(settings: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_test-server"));
        command.arg(settings).stdout(Stdio::piped());
        command
    }

    /// Waits until it listens.
    pub fn start(mut command: Command) -> Program {
        let mut child = command.spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut address = || {
            let line = lines.next().expect("its addresses").expect("text");
            line.parse().expect("an address")
        };
        let (address, admin) = (address(), address());
        Program { child, address, admin }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Its workers end with it, also a blocked one: it may take the drain's timeout.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
