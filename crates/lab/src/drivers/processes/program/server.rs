//! `watchfire serve`, for the users of a load.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use super::content::Content;
use super::contract::{Program, START_TIMEOUT, Started, Ticket};
use super::running_server::RunningServer;
use crate::drivers::processes::host::{NodeError, Process, Site};

const PORT: u16 = 4000;
const OPERATOR_PORT: u16 = 4010;

pub struct Server {
    program: PathBuf,
    settings: BTreeMap<String, String>,
}

impl Server {
    /// A server with these settings, by their keys in its settings file. The server checks them.
    pub fn new(program: PathBuf, settings: &BTreeMap<String, String>) -> Self {
        Server { program, settings: settings.clone() }
    }

    pub fn command(&self, site: &Site) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("serve").args(["--listen", &format!("{}:{}", site.listen(), site.port(PORT))]);
        if let Some(v6) = site.v6 {
            command.args(["--listen", &format!("[{v6}]:{}", site.port(PORT))]);
        }
        // The operator's listener is never open to other hosts.
        let is_own = site.remote.is_none() && site.address.is_loopback();
        let own = if is_own { site.address } else { Ipv4Addr::LOCALHOST };
        let own = format!("admin.listen={own}:{}", site.port(OPERATOR_PORT));
        command.args(["--set", &own]);
        if !site.environment.is_empty() {
            command.args(["--set", "traces.sample=1"]);
        }
        for (key, value) in &self.settings {
            command.args(["--set", &format!("{key}={}", site.with_addresses(value))]);
        }
        command
    }

    pub fn wait_until_ready(&self, process: &mut Process) -> Result<(), NodeError> {
        process.wait_for_line("Watchfire is running at", START_TIMEOUT)
    }

    pub fn url(site: &Site) -> String {
        format!("ws://{}:{}", site.address, site.port(PORT))
    }
}

impl Program for Server {
    fn seed(&self, _: &Site, _: &[Content]) -> Started {
        Err(no_content())
    }

    fn store(&self, _: &Site, _: &[Content]) -> Result<Vec<Ticket>, NodeError> {
        Err(no_content())
    }

    fn prepare(&self, _: &Site, _: &[Ticket], _: &[Ticket]) -> Started {
        Err(no_content())
    }

    fn serve(&self, site: &Site) -> Started {
        let mut process = Process::start(site, self.command(site), "serve")?;
        self.wait_until_ready(&mut process)?;
        Ok(Box::new(RunningServer::new(Server::url(site), process)))
    }
}

fn no_content() -> NodeError {
    let problem = "the peer of this node is a server, which has no content; choose another peer";
    NodeError::unfit("share or fetch content", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operators_listener_is_on_loopback_in_every_network() {
        let server = Server::new(PathBuf::from("watchfire"), &BTreeMap::new());
        let (mut site, _folder) = Site::for_test();
        for (address, admin) in [([127, 3, 0, 1], "127.3.0.1"), ([11, 0, 0, 1], "127.0.0.1")] {
            site.address = address.into();
            let arguments = format!("{:?}", server.command(&site));
            assert!(arguments.contains(&format!("\"admin.listen={admin}:4010\"")), "{arguments}");
            assert!(!arguments.contains("[2001:db8::1]"), "{arguments}");
            site.v6 = Some("2001:db8::1".parse().unwrap());
            let arguments = format!("{:?}", server.command(&site));
            assert!(arguments.contains("\"--listen\" \"[2001:db8::1]:4000\""), "{arguments}");
            site.v6 = None;
        }
    }
}
