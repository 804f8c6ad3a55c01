//! The command-line options that name other hosts.

use std::path::PathBuf;

use watchfire_lab::{HostError, Hosts};

/// Hosts, over ssh.
#[derive(clap::Args)]
pub struct HostsOptions {
    /// A file with a host on each line: a destination of ssh, and the address that other hosts dial if it is
    /// another one.
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// A program that prints such a list.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "hosts")]
    hosts_from: Option<PathBuf>,
    /// A configuration of ssh, in place of ~/.ssh/config.
    #[arg(long, value_name = "FILE")]
    ssh_config: Option<PathBuf>,
}

impl HostsOptions {
    /// The hosts, if the command line names any.
    pub fn read(&self) -> Result<Option<Hosts>, HostError> {
        let hosts = match (&self.hosts, &self.hosts_from) {
            (Some(file), _) => Some(Hosts::read(file)?),
            (None, Some(program)) => Some(Hosts::from_program(program)?),
            (None, None) => None,
        };
        Ok(hosts.map(|hosts| self.with_config(hosts)))
    }

    pub fn with_config(&self, hosts: Hosts) -> Hosts {
        Hosts { ssh_config: self.ssh_config.clone(), ..hosts }
    }
}
