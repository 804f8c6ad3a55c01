//! Agents of a load that are started on other hosts, and end with it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use watchfire_lab::{Connection, Hosts, LAB_MARK, Workspace};
use watchfire_load::AgentAddress;

use crate::lab::runs;

/// How the line of an agent that is ready begins.
const READY: &str = "The agent listens on ";
const TOKEN_BYTES: usize = 32;
/// The end of an agent's log that an error contains.
const LOG_BYTES: u64 = 600;

/// Agents that end when this is dropped. Fields are dropped in this order.
pub struct Agents {
    agents: Vec<Agent>,
    _folder: Workspace,
}

struct Agent {
    address: AgentAddress,
    ssh: Child,
    /// Ends the agent on its host, and removes its program.
    _connection: Connection,
}

impl Agents {
    /// Copies this program to each host, and starts an agent there.
    pub fn start(hosts: &Hosts) -> anyhow::Result<Agents> {
        let folder = Workspace::create(&runs()?)?;
        let mut token = [0; TOKEN_BYTES];
        getrandom::fill(&mut token)
            .context("cannot generate a token: the operating system returned no random bytes")?;
        let token: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
        let agents = std::thread::scope(|scope| {
            let start = |index| {
                let (folder, token) = (&folder, &token);
                scope.spawn(move || Agent::start(hosts, index, folder, token))
            };
            let starting: Vec<_> = (0..hosts.names.len()).map(start).collect();
            let join = |agent: std::thread::ScopedJoinHandle<'_, _>| {
                agent.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            starting.into_iter().map(join).collect::<anyhow::Result<Vec<_>>>()
        })?;
        Ok(Agents { agents, _folder: folder })
    }

    pub fn addresses(&self) -> impl Iterator<Item = AgentAddress> {
        self.agents.iter().map(|agent| agent.address.clone())
    }
}

impl Agent {
    fn start(
        hosts: &Hosts,
        index: usize,
        folder: &Workspace,
        token: &str,
    ) -> anyhow::Result<Agent> {
        let connection = Connection::open(hosts, index, &folder.folder, (LAB_MARK, &folder.id))?;
        let mut command = Command::new(connection.program(&std::env::current_exe()?)?);
        command.args(["load", "agent", "--listen", "0.0.0.0:0", "--token-file"]);
        command.arg(connection.write("token", token.as_bytes())?);
        let mut ssh = connection.command(&command, connection.folder());
        let mut ssh = ssh.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let output = ssh.stdout.take().context("the output is piped")?;
        // The agent that fails closes its output.
        BufReader::new(output.take(LOG_BYTES)).read_line(&mut line)?;
        let port = line.trim_end().strip_prefix(READY).and_then(|at| at.rsplit_once(':'));
        let Some((_, port)) = port else {
            let _ = ssh.kill();
            let mut log = String::new();
            if let Some(stderr) = ssh.stderr.take() {
                stderr.take(LOG_BYTES).read_to_string(&mut log)?;
            }
            ssh.wait()?;
            anyhow::bail!("{}: cannot start an agent: {}", connection.name(), log.trim());
        };
        let address = format!("{}:{port}", connection.address);
        let address = AgentAddress { address, token: token.to_owned() };
        Ok(Agent { address, ssh, _connection: connection })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}
