//! A connection to one host: everything goes through one `ssh`.
//!
//! The first `ssh` is the master of the connection (OpenSSH's ControlMaster) and runs the [`guard`] on the
//! host. Further commands are sessions on the same connection, which cost a round trip rather than a
//! key exchange: about 10 ms instead of 200 ms. When the host allows no more sessions, `ssh` makes a connection of
//! its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use super::guard::{self, BEAT, MARK};
use super::list::{HostError, HostName, Hosts};

/// How long a host may take to remove what the lab copied to it.
const CLEAN_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes that a login shell may print before the guard.
const GREETING_BYTES_MAX: u64 = 64 << 10;
const PAUSE: Duration = Duration::from_millis(10);
/// The end of ssh's output that an error contains.
const LOG_BYTES: usize = 600;

/// A connected host. All that was started or copied there ends with it.
pub struct Connection {
    hosts: Hosts,
    host: HostName,
    pub address: Ipv4Addr,
    /// The socket of the master.
    control: PathBuf,
    master: Mutex<Child>,
    /// Ends the beats, and so the standing of the guard.
    beats: Option<Sender<()>>,
    /// The machine, as `uname -m` names it.
    machine: String,
    /// The lab's folder on the host.
    folder: String,
    /// Files that the host has, by their path here.
    copied: Mutex<BTreeMap<PathBuf, String>>,
}

impl Connection {
    /// Connects to the host with this index. The socket is in `folder`, whose path must be short.
    /// `mark` is set in the environment of `ssh`.
    pub fn open(
        hosts: &Hosts,
        index: usize,
        folder: &Path,
        mark: (&str, &str),
    ) -> Result<Connection, HostError> {
        let host = hosts.names[index].clone();
        let address = hosts.address(&host)?;
        let control = folder.join(format!("ssh-{index}"));
        let mut ssh = hosts.ssh();
        ssh.args(["-o", "ControlMaster=yes", "-o", "ControlPersist=no"]);
        ssh.arg("-o").arg(format!("ControlPath={}", control.display()));
        ssh.args(["--", &host.destination, &in_shell(&guard::script())]);
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        ssh.env(mark.0, mark.1);
        let mut master = ssh.spawn().map_err(|source| run_error("ssh", source))?;
        let output = BufReader::new(master.stdout.take().expect("the output is piped"));
        // ssh ends by itself when it cannot connect, and so does its output.
        let lines = output.take(GREETING_BYTES_MAX).lines().map_while(Result::ok);
        let mut words = lines.map(|line| {
            let words = line.strip_prefix(guard::GREETING)?.trim_start().split_once(' ');
            words.map(|(machine, folder)| (machine.to_owned(), folder.to_owned()))
        });
        let Some((machine, remote)) = words.find_map(|words| words) else {
            let problem = connect_problem(&mut master);
            return Err(HostError::Connect { host: host.destination, problem });
        };
        let beats = beat(&mut master)?;
        drain(&mut master)?;
        Ok(Connection {
            hosts: hosts.clone(),
            host,
            address,
            control,
            master: Mutex::new(master),
            beats: Some(beats),
            machine,
            folder: remote,
            copied: Mutex::default(),
        })
    }

    pub fn name(&self) -> &str {
        &self.host.destination
    }

    /// The lab's folder on the host.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Whether the connection still stands.
    pub fn is_open(&self) -> bool {
        let mut master = self.master.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        matches!(master.try_wait(), Ok(None))
    }

    /// `ssh` with a script for the shell of the host, over this connection.
    fn session(&self, script: &str) -> Command {
        let mut ssh = self.hosts.ssh();
        ssh.args(["-o", "ControlMaster=no"]);
        ssh.arg("-o").arg(format!("ControlPath={}", self.control.display()));
        ssh.args(["--", &self.host.destination, &in_shell(script)]);
        ssh.stdin(Stdio::null());
        ssh
    }

    /// The command of `ssh` that runs a command on the host, in a folder there. The first line of its standard
    /// error is `process NUMBER`.
    pub fn command(&self, command: &Command, folder: &str) -> Command {
        let mut words = vec![format!("{MARK}={}", self.folder)];
        for (name, value) in command.get_envs() {
            let value = value.unwrap_or_default();
            words.push(format!("{}={}", name.to_string_lossy(), value.to_string_lossy()));
        }
        words.push(command.get_program().to_string_lossy().into_owned());
        words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let folder = quoted(folder);
        self.session(&format!(
            "mkdir -p {folder} && cd {folder} && echo \"process $$\" >&2 && exec env {}",
            words.join(" ")
        ))
    }

    /// Removes a folder below the lab's own.
    pub fn remove(&self, name: &str) -> Result<(), HostError> {
        let folder = quoted(&format!("{}/{name}", self.folder));
        self.run(&format!("rm -rf {folder}")).map(drop)
    }

    /// Runs a script on the host, and returns its output.
    pub fn run(&self, script: &str) -> Result<String, HostError> {
        if !self.is_open() {
            let problem = "the connection is closed".to_owned();
            return Err(HostError::Failed { host: self.name().to_owned(), problem });
        }
        let output = self.session(script).output().map_err(|source| run_error("ssh", source))?;
        if !output.status.success() {
            let problem = end_of(&output.stderr);
            return Err(HostError::Failed { host: self.name().to_owned(), problem });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Copies a program unless the host has it. Returns its path there.
    pub fn program(&self, program: &Path) -> Result<String, HostError> {
        let failed = |source| run_error(&program.display().to_string(), source);
        if let Some(built_for) = architecture(program).map_err(failed)?
            && !is_for(built_for, &self.machine)
        {
            let (host, program) = (self.name().to_owned(), program.to_owned());
            let machine = self.machine.clone();
            return Err(HostError::Architecture { host, program, built_for, machine });
        }
        self.copy(program)
    }

    /// Copies a file or a folder unless the host has it. Returns its path there.
    pub fn copy(&self, path: &Path) -> Result<String, HostError> {
        let mut copied = self.copied.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(remote) = copied.get(path) {
            return Ok(remote.clone());
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let remote = format!("{}/copies/{}/{name}", self.folder, copied.len());
        self.send(path, &remote)?;
        copied.insert(path.to_owned(), remote.clone());
        Ok(remote)
    }

    /// Writes a small file that only the user of the host can read. Returns its path there.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<String, HostError> {
        let remote = format!("{}/{name}", self.folder);
        let failed = |problem: String| HostError::Failed { host: self.name().to_owned(), problem };
        let mut ssh = self.session(&format!("umask 077 && cat > {}", quoted(&remote)));
        ssh.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut ssh = ssh.spawn().map_err(|source| run_error("ssh", source))?;
        let written = ssh.stdin.take().map_or(Ok(()), |mut input| input.write_all(bytes));
        let output = ssh.wait_with_output().map_err(|source| run_error("ssh", source))?;
        match written {
            Ok(()) if output.status.success() => Ok(remote),
            _ => Err(failed(end_of(&output.stderr))),
        }
    }

    fn send(&self, path: &Path, remote: &str) -> Result<(), HostError> {
        let error = |problem: String| HostError::Copy {
            host: self.name().to_owned(),
            file: path.to_owned(),
            problem,
        };
        let is_folder = path.is_dir();
        let (folder, _) = remote.rsplit_once('/').unwrap_or((remote, ""));
        let (folder, remote) = (quoted(folder), quoted(remote));
        // A stream that was cut looks like its end to `cat`, so the host answers with what it got.
        let script = match is_folder {
            true => format!("mkdir -p {remote} && cd {remote} && tar -xf - && echo whole"),
            false => format!(
                "mkdir -p {folder} && cat > {remote} && chmod 700 {remote} && sha256sum < {remote}"
            ),
        };
        let mut ssh = self.session(&script);
        let mut tar = None;
        if is_folder {
            let mut command = Command::new("tar");
            command.arg("-C").arg(path).args(["-cf", "-", "."]).stdin(Stdio::null());
            command.stdout(Stdio::piped());
            let child = tar.insert(command.spawn().map_err(|source| run_error("tar", source))?);
            ssh.stdin(child.stdout.take().expect("the output is piped"));
        } else {
            ssh.stdin(File::open(path).map_err(|cause| error(cause.to_string()))?);
        }
        let output = ssh.output().map_err(|source| run_error("ssh", source))?;
        let archived = tar.map(|mut tar| tar.wait()).transpose();
        let expected = match is_folder {
            true => "whole".to_owned(),
            false => hash(path).map_err(|cause| error(cause.to_string()))?,
        };
        let is_archived = archived.is_ok_and(|status| status.is_none_or(|status| status.success()));
        let told = String::from_utf8_lossy(&output.stdout);
        match told.split_whitespace().next() {
            Some(word) if word == expected && is_archived && output.status.success() => Ok(()),
            Some(_) => Err(error("the copy differs".to_owned())),
            None => Err(error(end_of(&output.stderr))),
        }
    }
}

impl Drop for Connection {
    /// Ends all that runs on the host, and waits until the host is clean.
    fn drop(&mut self) {
        self.beats = None;
        let master = self.master.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let started_at = Instant::now();
        while matches!(master.try_wait(), Ok(None)) && started_at.elapsed() < CLEAN_TIMEOUT {
            thread::sleep(PAUSE);
        }
        let _ = master.kill();
        let _ = master.wait();
        let _ = std::fs::remove_file(&self.control);
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Connection").field(&self.host.destination).finish()
    }
}

/// Writes a line to the guard in intervals, until the sender is dropped. Then its input ends.
fn beat(master: &mut Child) -> Result<Sender<()>, HostError> {
    let mut input = master.stdin.take().expect("the input is piped");
    let (sender, receiver) = channel::<()>();
    let beat = move || {
        while receiver.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
            if input.write_all(b"\n").is_err() {
                return;
            }
        }
    };
    let thread = thread::Builder::new().name("beats".to_owned()).spawn(beat);
    thread.map(|_| sender).map_err(|source| run_error("a thread", source))
}

/// Reads what `ssh` writes, so that it never waits for a reader.
fn drain(master: &mut Child) -> Result<(), HostError> {
    let mut log = master.stderr.take().expect("the log is piped");
    let drain = move || drop(io::copy(&mut log, &mut io::sink()));
    let thread = thread::Builder::new().name("ssh".to_owned()).spawn(drain);
    thread.map(drop).map_err(|source| run_error("a thread", source))
}

/// Why `ssh` did not connect, with advice.
fn connect_problem(master: &mut Child) -> String {
    drop(master.stdin.take());
    let mut log = Vec::new();
    if let Some(stderr) = master.stderr.take() {
        let _ = stderr.take(64 << 10).read_to_end(&mut log);
    }
    let _ = master.wait();
    let log = String::from_utf8_lossy(&log).into_owned();
    let known: &[(&str, &str)] = &[
        (
            "IDENTIFICATION HAS CHANGED",
            "its host key is not the one that is known. Either the host was made again, and ssh-keygen -R \
             forgets the old key, or another machine answers",
        ),
        (
            "Host key verification failed",
            "its host key is not known; connect once with ssh, or set StrictHostKeyChecking accept-new in the \
             configuration of ssh",
        ),
        ("Permission denied", "it accepts none of your keys, and a password is never asked for"),
    ];
    match known.iter().find(|(text, _)| log.contains(text)) {
        Some((_, problem)) => (*problem).to_owned(),
        None => end_of(log.as_bytes()),
    }
}

fn run_error(program: &str, source: io::Error) -> HostError {
    HostError::Run { program: program.to_owned(), source }
}

fn end_of(output: &[u8]) -> String {
    let end = &output[output.len().saturating_sub(LOG_BYTES)..];
    String::from_utf8_lossy(end).trim().to_owned()
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The login shell of a host can be another one than a POSIX shell.
fn in_shell(script: &str) -> String {
    format!("exec sh -c {}", quoted(script))
}

fn hash(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut file = File::open(path)?;
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            len => hasher.update(&piece[..len]),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The machine that a program is built for; `None` for a script and for machines that are not known here.
fn architecture(program: &Path) -> io::Result<Option<&'static str>> {
    let mut head = Vec::new();
    File::open(program)?.take(20).read_to_end(&mut head)?;
    let is_little = head.get(..6).is_some_and(|head| head.starts_with(b"\x7fELF") && head[5] == 1);
    let machine = head.get(18..20).filter(|_| is_little);
    Ok(match machine.map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]])) {
        Some(3) => Some("i686"),
        Some(40) => Some("arm"),
        Some(62) => Some("x86_64"),
        Some(183) => Some("aarch64"),
        Some(243) => Some("riscv64"),
        _ => None,
    })
}

fn is_for(built_for: &str, machine: &str) -> bool {
    match built_for {
        "i686" => matches!(machine, "i386" | "i486" | "i586" | "i686" | "x86_64"),
        "arm" => machine.starts_with("arm") || machine == "aarch64",
        other => other == machine,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_shell_as_they_are() {
        let words = ["a b", "it's", "$HOME", "\"", "*"];
        let line = words.map(quoted).join(" ");
        let script = in_shell(&format!("printf '%s\\n' {line}"));
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().collect::<Vec<_>>(), words);
    }

    #[test]
    fn a_program_of_another_machine_is_recognised() {
        let own = std::env::current_exe().unwrap();
        let built_for = architecture(&own).unwrap().unwrap();
        assert_eq!(built_for, std::env::consts::ARCH);
        assert!(is_for("x86_64", "x86_64") && !is_for("aarch64", "x86_64"));
        assert!(is_for("i686", "x86_64") && is_for("arm", "armv7l") && !is_for("arm", "x86_64"));
    }
}
