//! A list of hosts, and how `ssh` reaches them.

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Most hosts of a list.
const HOSTS_MAX: usize = 1000;
/// Most bytes of a list.
const LIST_BYTES_MAX: u64 = 1 << 20;

/// A host, and how other hosts reach its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName {
    /// A destination of ssh, such as `root@192.0.2.7` or a name in its configuration.
    pub destination: String,
    /// The address that nodes dial; `None`: the one that ssh connects to.
    pub address: Option<Ipv4Addr>,
}

/// Hosts, and the configuration of ssh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    pub names: Vec<HostName>,
    /// A file in place of `~/.ssh/config`.
    pub ssh_config: Option<PathBuf>,
}

/// Why a host cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    #[error("cannot read the hosts of {list}: {problem}")]
    List { list: String, problem: String },
    #[error("cannot run {program}")]
    Run { program: String, source: io::Error },
    #[error("cannot connect to {host}: {problem}")]
    Connect { host: String, problem: String },
    #[error("cannot copy {file} to {host}: {problem}")]
    Copy { host: String, file: PathBuf, problem: String },
    #[error(
        "cannot run {program} on {host}: it is a program for {built_for}, and the host is {machine}"
    )]
    Architecture { host: String, program: PathBuf, built_for: &'static str, machine: String },
    #[error("{host} did not do what it should: {problem}")]
    Failed { host: String, problem: String },
}

impl Hosts {
    /// The hosts in a file: a destination of ssh on each line, and the address that nodes dial if it is
    /// another one. A line that begins with `#` is a comment.
    ///
    /// ```
    /// let hosts = watchfire_lab::Hosts::parse("hosts", "root@a.example.org\nb 10.0.0.7\n")?;
    /// assert_eq!(hosts.names[1].address, Some([10, 0, 0, 7].into()));
    /// # Ok::<(), watchfire_lab::HostError>(())
    /// ```
    pub fn parse(list: &str, text: &str) -> Result<Hosts, HostError> {
        let error = |problem: String| HostError::List { list: list.to_owned(), problem };
        let mut names = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split_whitespace();
            let Some(destination) = words.next().filter(|word| !word.starts_with('#')) else {
                continue;
            };
            let number = number + 1;
            if destination.starts_with('-') {
                return Err(error(format!("line {number}: {destination:?} is not a host")));
            }
            let address = words.next().map(|word| {
                let problem = || format!("line {number}: {word:?} is not an IPv4 address");
                word.parse().map_err(|_| error(problem()))
            });
            if let Some(word) = words.next() {
                return Err(error(format!("line {number}: unexpected {word:?}")));
            }
            names.push(HostName {
                destination: destination.to_owned(),
                address: address.transpose()?,
            });
        }
        match names.len() {
            1..=HOSTS_MAX => Ok(Hosts { names, ssh_config: None }),
            0 => Err(error("it has none; write a destination of ssh on each line".to_owned())),
            count => Err(error(format!("{count} are more than {HOSTS_MAX}"))),
        }
    }

    pub fn read(file: &Path) -> Result<Hosts, HostError> {
        let list = file.display().to_string();
        let text = File::open(file).and_then(read_list);
        let error =
            |cause: io::Error| HostError::List { list: list.clone(), problem: cause.to_string() };
        Hosts::parse(&list, &text.map_err(error)?)
    }

    /// The hosts that a program prints.
    pub fn from_program(program: &Path) -> Result<Hosts, HostError> {
        let list = program.display().to_string();
        let run_error = |source| HostError::Run { program: list.clone(), source };
        let error = |problem: String| HostError::List { list: list.clone(), problem };
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut running = command.spawn().map_err(run_error)?;
        let text = read_list(running.stdout.take().expect("the output is piped"));
        if text.is_err() {
            // It may print without end.
            let _ = running.kill();
        }
        let status = running.wait().map_err(run_error)?;
        let text = text.map_err(|cause| error(cause.to_string()))?;
        if !status.success() {
            return Err(error(format!("it ended with {status}")));
        }
        Hosts::parse(&list, &text)
    }

    /// A command of ssh with its options, without a destination.
    pub fn ssh(&self) -> Command {
        let mut ssh = Command::new("ssh");
        if let Some(config) = &self.ssh_config {
            // Commands of nodes run in folders of their own.
            ssh.arg("-F").arg(std::path::absolute(config).unwrap_or_else(|_| config.clone()));
        }
        // ssh never asks for anything, and notices within 15 s that a host is gone.
        for option in [
            "BatchMode=yes",
            "ConnectTimeout=10",
            "ServerAliveInterval=5",
            "ServerAliveCountMax=3",
            "ClearAllForwardings=yes",
            "ForwardAgent=no",
            "RequestTTY=no",
        ] {
            ssh.args(["-o", option]);
        }
        ssh
    }

    /// The address that nodes of other hosts dial.
    pub fn address(&self, host: &HostName) -> Result<Ipv4Addr, HostError> {
        if let Some(address) = host.address {
            return Ok(address);
        }
        let destination = &host.destination;
        let error = |problem: String| HostError::Connect { host: destination.clone(), problem };
        let output = self.ssh().args(["-G", "--", destination]).stdin(Stdio::null()).output();
        let output =
            output.map_err(|source| HostError::Run { program: "ssh".to_owned(), source })?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let name = text
            .lines()
            .find_map(|line| line.strip_prefix("hostname "))
            .ok_or_else(|| error(String::from_utf8_lossy(&output.stderr).trim().to_owned()))?;
        let addresses =
            (name, 22).to_socket_addrs().map_err(|cause| error(format!("{name}: {cause}")))?;
        let mut addresses = addresses.filter_map(|address| match address.ip() {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        });
        addresses.next().ok_or_else(|| {
            error(format!("{name} has no IPv4 address; write one after the host in the list"))
        })
    }
}

/// Reads a list to its end, which can be missing: then it fails at [`LIST_BYTES_MAX`].
fn read_list(input: impl Read) -> io::Result<String> {
    let mut text = Vec::new();
    input.take(LIST_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LIST_BYTES_MAX {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    String::from_utf8(text).map_err(|_| io::Error::other("it is not text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use watchfire_testkit::write_program;

    use super::*;

    #[test]
    fn a_list_has_a_host_on_each_line() {
        let hosts = Hosts::parse("hosts", "# two\n\nroot@a\n b 10.0.0.7 \n").unwrap();
        let names: Vec<_> = hosts.names.iter().map(|host| host.destination.as_str()).collect();
        assert_eq!(names, ["root@a", "b"]);
        for (text, problem) in [
            ("", "it has none"),
            ("a\n-oProxyCommand=x", "line 2: \"-oProxyCommand=x\" is not a host"),
            ("a 10.0.0", "line 1: \"10.0.0\" is not an IPv4 address"),
            ("a 10.0.0.1 b", "line 1: unexpected \"b\""),
        ] {
            let error = Hosts::parse("hosts", text).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_list_that_has_no_end_or_no_text_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let endless = Hosts::read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(endless, "cannot read the hosts of /dev/zero: it is longer than 1 MiB");
        for (script, problem) in [
            ("while :; do echo host; done", "it is longer than 1 MiB"),
            ("printf 'a\\377'", "it is not text in UTF-8"),
            ("true", "it has none"),
            ("echo host; exit 3", "it ended with exit status: 3"),
        ] {
            let program = folder.join("hosts");
            write_program(&program, format!("#!/bin/sh\n{script}\n"));
            let error = Hosts::from_program(&program).unwrap_err().to_string();
            assert!(error.contains(problem), "{script}: {error}");
        }
    }
}
