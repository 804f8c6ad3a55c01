//! A process of a node: its output line by line, its log, its CPU time and its memory.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::process_id::ProcessId;
use super::process_tree::{PEAK, ProcessTree, Usage, cpu, memory};
use super::site::Site;
use super::workspace::MARK;
use crate::hosts::{Connection, HostError};

/// The interval in which a process is asked whether it has ended.
const PAUSE: Duration = Duration::from_millis(5);
/// The end of a log that an error contains.
const LOG_BYTES: u64 = 600;
/// The exit code with which `ssh` says that it failed itself.
const SSH_FAILED: i32 = 255;
/// The begin of the first line in the log of a process on another host; its number follows.
const REMOTE_NUMBER: &str = "process ";
/// The interval in which the memory and CPU time of a program's child processes are read while it runs. A browser has ten
/// processes with many threads, and there may be a browser for each node.
const TREE_INTERVAL: Duration = Duration::from_secs(1);
/// Most bytes of output that are read. The rest stays in the file.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// Why a node failed.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("cannot run {program}")]
    Spawn { program: String, source: io::Error },
    #[error("{program} ended with {status}{log}")]
    Ended { program: String, status: ExitStatus, log: String },
    #[error("{program} was not ready after {seconds} s{log}")]
    NotReady { program: String, seconds: u64, log: String },
    #[error("{program} did not end within {seconds} s{log}")]
    NotEnded { program: String, seconds: u64, log: String },
    #[error("the answer of {program} is unexpected: {problem}")]
    Unexpected { program: String, problem: String },
    /// The peer does not fit the part of its node in the trial.
    #[error("cannot {task}: {problem}")]
    Unfit { task: String, problem: String },
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("cannot read or write {path}")]
    File { path: PathBuf, source: io::Error },
}

impl NodeError {
    pub fn unfit(task: impl Into<String>, problem: impl Into<String>) -> NodeError {
        NodeError::Unfit { task: task.into(), problem: problem.into() }
    }

    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> NodeError {
        let path = path.to_owned();
        |source| NodeError::File { path, source }
    }
}

/// Runs a command to its end, outside of any node. Returns its output.
pub fn run_to_end(command: &mut Command) -> Result<Vec<u8>, NodeError> {
    let program = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|source| NodeError::Spawn { program: program.clone(), source })?;
    if !output.status.success() {
        let log = format!(": {}", String::from_utf8_lossy(&output.stderr).trim());
        return Err(NodeError::Ended { program, status: output.status, log });
    }
    Ok(output.stdout)
}

/// How a process runs.
enum Runner {
    /// As a child of the lab.
    Here(Child),
    /// On another host. The child is its `ssh`.
    Remote(Child, Arc<Connection>),
    /// In a standing cluster, where an earlier command has started it. The file takes commands, if the program does.
    Standing(ProcessId, Option<File>),
}

/// A process that is killed when this is dropped, unless it belongs to a standing cluster.
pub struct Process {
    program: String,
    runner: Runner,
    output: File,
    /// Output that was read and is not a whole line yet.
    rest: Vec<u8>,
    read_bytes: usize,
    log: PathBuf,
    ended: Option<ExitStatus>,
    usage: Usage,
    /// When its child processes were read.
    tree_read_at: Option<Instant>,
}

impl Process {
    /// Starts a command at a node. Its output and its log are in the folder of the node.
    pub fn start(site: &Site, command: Command, name: &str) -> Result<Process, NodeError> {
        Process::start_with_input(site, command, name, Stdio::null())
    }

    /// Like [`Process::start`], with a standard input.
    pub fn start_with_input(
        site: &Site,
        command: Command,
        name: &str,
        input: Stdio,
    ) -> Result<Process, NodeError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let program = program.rsplit('/').next().unwrap_or_default().to_owned();
        let (out, log) = files(site, name);
        let create = |path: &Path| File::create(path).map_err(NodeError::file(path));
        let mut command = site.command(command);
        command.stdin(input).stdout(create(&out)?).stderr(create(&log)?);
        command.env(MARK, &site.run).current_dir(&site.folder);
        command.envs(site.environment.iter().map(|(name, value)| (name, value)));
        let child = site
            .spawn(command)
            .map_err(|source| NodeError::Spawn { program: program.clone(), source })?;
        let output = File::open(&out).map_err(NodeError::file(&out))?;
        let runner = match &site.remote {
            Some(remote) => Runner::Remote(child, Arc::clone(&remote.connection)),
            None => Runner::Here(child),
        };
        Ok(Process::new(program, runner, output, log))
    }

    /// A process that an earlier command has started with this name at a node. Its output is read from now on.
    pub fn standing(
        site: &Site,
        name: &str,
        program: &str,
        id: ProcessId,
        commands: Option<File>,
    ) -> Result<Process, NodeError> {
        let (out, log) = files(site, name);
        let mut output = File::open(&out).map_err(NodeError::file(&out))?;
        output.seek(SeekFrom::End(0)).map_err(NodeError::file(&out))?;
        Ok(Process::new(program.to_owned(), Runner::Standing(id, commands), output, log))
    }

    fn new(program: String, runner: Runner, output: File, log: PathBuf) -> Process {
        Process {
            program,
            runner,
            output,
            rest: Vec::new(),
            read_bytes: 0,
            log,
            ended: None,
            usage: Usage::default(),
            tree_read_at: None,
        }
    }

    /// Writes a line to its input, which was piped, or a command to a standing process.
    pub fn write_line(&mut self, line: &str) -> Result<(), NodeError> {
        self.check_running()?;
        let line = format!("{line}\n");
        let input: Option<&mut dyn io::Write> = match &mut self.runner {
            Runner::Standing(_, commands) => commands.as_mut().map(|file| file as _),
            Runner::Here(child) | Runner::Remote(child, _) => {
                child.stdin.as_mut().map(|input| input as _)
            }
        };
        let written = input.map_or(Ok(()), |input| input.write_all(line.as_bytes()));
        written.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => self.unexpected("it does not read its commands"),
            _ => self.unexpected(error),
        })
    }

    /// Leaves it running when this is dropped.
    pub fn leave(mut self) -> Result<ProcessId, NodeError> {
        let id = self.id().map_or_else(|| Err(io::ErrorKind::NotFound.into()), ProcessId::of);
        let program = self.program.clone();
        let id = id.map_err(|source| NodeError::Spawn { program, source })?;
        self.runner = Runner::Standing(id.clone(), None);
        Ok(id)
    }

    /// Names its program, where the command only starts it.
    pub fn called(mut self, program: &str) -> Process {
        self.program = program.to_owned();
        self
    }

    /// Its number, if it is a child of the lab.
    pub fn id(&self) -> Option<u32> {
        match &self.runner {
            Runner::Here(child) => Some(child.id()),
            Runner::Remote(..) | Runner::Standing(..) => None,
        }
    }

    pub fn program(&self) -> &str {
        &self.program
    }

    /// The lines that it wrote since the last call.
    pub fn lines(&mut self) -> Result<Vec<String>, NodeError> {
        let left = (OUTPUT_BYTES_MAX - self.read_bytes) as u64;
        let read = (&self.output).take(left).read_to_end(&mut self.rest);
        self.read_bytes += read.map_err(NodeError::file(&self.log))?;
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return Ok(Vec::new());
        };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        Ok(String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect())
    }

    /// Whether it has ended. Its memory and CPU time are read as long as it runs.
    pub fn has_ended(&mut self) -> Result<Option<ExitStatus>, NodeError> {
        if self.ended.is_some() {
            return Ok(self.ended);
        }
        // On another host this would cost a round trip each time.
        if matches!(self.runner, Runner::Here(_)) {
            self.measure(self.tree_read_at.is_none_or(|at| at.elapsed() > TREE_INTERVAL));
        }
        match &mut self.runner {
            Runner::Here(child) | Runner::Remote(child, _) => {
                self.ended = child
                    .try_wait()
                    .map_err(|source| NodeError::Spawn { program: self.program.clone(), source })?;
                Ok(self.ended)
            }
            Runner::Standing(id, _) if id.is_running() => Ok(None),
            // Only its parent gets its status.
            Runner::Standing(..) => Err(self.unexpected("it has ended")),
        }
    }

    /// Fails if it has ended.
    pub fn check_running(&mut self) -> Result<(), NodeError> {
        match self.has_ended()? {
            None => Ok(()),
            Some(status) => Err(self.ended_with(status)),
        }
    }

    pub fn ended_with(&self, status: ExitStatus) -> NodeError {
        // ssh itself ends with 255, and the host has none that says more.
        if let Runner::Remote(_, host) = &self.runner
            && status.code() == Some(SSH_FAILED)
        {
            let (host, program) = (host.name().to_owned(), &self.program);
            let problem = format!("the connection broke while {program} ran{}", self.log_end());
            return NodeError::Host(HostError::Failed { host, problem });
        }
        NodeError::Ended { program: self.program.clone(), status, log: self.log_end() }
    }

    /// The error of an answer that says something else, with the end of the log.
    pub fn unexpected(&self, problem: impl ToString) -> NodeError {
        let problem = format!("{}{}", problem.to_string(), self.log_end());
        NodeError::Unexpected { program: self.program.clone(), problem }
    }

    /// Waits until `is_ready` finds what it looks for in the lines that the process writes.
    pub fn wait_until<T>(
        &mut self,
        timeout: Duration,
        mut is_ready: impl FnMut(&mut Process) -> Result<Option<T>, NodeError>,
    ) -> Result<T, NodeError> {
        let found = self.ask(timeout, |process| match is_ready(process)? {
            None => process.check_running().map(|()| None),
            found => Ok(found),
        })?;
        found.ok_or_else(|| NodeError::NotReady {
            program: self.program.clone(),
            seconds: timeout.as_secs(),
            log: self.log_end(),
        })
    }

    /// Waits until a line that it writes contains a text.
    pub fn wait_for_line(&mut self, text: &str, timeout: Duration) -> Result<(), NodeError> {
        self.wait_until(timeout, |process| {
            Ok(process.lines()?.iter().any(|line| line.contains(text)).then_some(()))
        })
    }

    /// Sends a signal and waits for the end.
    pub fn stop(&mut self, signal: Signal, timeout: Duration) -> Result<ExitStatus, NodeError> {
        self.measure(true);
        self.signal(signal);
        self.end(timeout)
    }

    /// Waits for the end.
    pub fn end(&mut self, timeout: Duration) -> Result<ExitStatus, NodeError> {
        self.ask(timeout, Process::has_ended)?.ok_or_else(|| NodeError::NotEnded {
            program: self.program.clone(),
            seconds: timeout.as_secs(),
            log: self.log_end(),
        })
    }

    /// Asks until there is an answer. `None` if there is none in time.
    fn ask<T>(
        &mut self,
        timeout: Duration,
        mut question: impl FnMut(&mut Process) -> Result<Option<T>, NodeError>,
    ) -> Result<Option<T>, NodeError> {
        let started_at = Instant::now();
        loop {
            let answer = question(self)?;
            if answer.is_some() || started_at.elapsed() > timeout {
                return Ok(answer);
            }
            std::thread::sleep(PAUSE);
        }
    }

    pub fn signal(&mut self, signal: Signal) {
        if self.ended.is_some() {
            return;
        }
        match &self.runner {
            Runner::Here(child) => {
                // The process is not waited for yet, so the number is still its own.
                let pid = Pid::from_raw(child.id().cast_signed());
                let _ = pid.map(|pid| kill_process(pid, signal));
            }
            Runner::Remote(_, host) => {
                let kill = |number| host.run(&format!("kill -{} {number}", signal.as_raw()));
                let _ = self.remote_number().map(kill);
            }
            Runner::Standing(id, _) => id.signal(signal),
        }
    }

    /// Ends it without a chance to say anything.
    pub fn kill(&mut self) {
        self.measure(true);
        // Its child processes would tell others that it has ended.
        let tree = self.id().map(ProcessTree::of);
        self.signal(Signal::KILL);
        tree.inspect(ProcessTree::kill);
        self.wait_for_child();
    }

    fn wait_for_child(&mut self) {
        if let Runner::Here(child) | Runner::Remote(child, _) = &mut self.runner {
            let _ = child.kill();
            self.ended = child.wait().ok().or(self.ended);
        }
    }

    /// Its CPU time and its peak memory, until now or until its end.
    pub fn usage(&mut self) -> Usage {
        self.measure(true);
        self.usage
    }

    /// The number of the process on its host: the first line of its log.
    fn remote_number(&self) -> Option<u32> {
        let mut line = String::new();
        BufReader::new(File::open(&self.log).ok()?.take(LOG_BYTES)).read_line(&mut line).ok()?;
        line.strip_prefix(REMOTE_NUMBER)?.trim_end().parse().ok()
    }

    /// Reads its CPU time and its memory; with its child processes, which takes longer, if that is wanted.
    fn measure(&mut self, with_children: bool) {
        if self.ended.is_some() {
            return;
        }
        // All are unreadable, or 0, once the process ends.
        let (stat, status) = match &self.runner {
            Runner::Here(child) => {
                let read = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", child.id()));
                (read("stat").unwrap_or_default(), read("status").unwrap_or_default())
            }
            Runner::Remote(_, host) => {
                let Some(number) = self.remote_number() else { return };
                let read = host.run(&format!("cat /proc/{number}/stat /proc/{number}/status"));
                let text = read.unwrap_or_default();
                let (stat, status) = text.split_once('\n').unwrap_or_default();
                (stat.to_owned(), status.to_owned())
            }
            Runner::Standing(id, _) => {
                let (usage, _) = id.usage().unwrap_or_default();
                return self.usage.raise_to(usage);
            }
        };
        let own = Usage {
            cpu: cpu(&stat).unwrap_or_default(),
            peak_memory: memory(&status, PEAK).unwrap_or(0),
        };
        self.usage.raise_to(own);
        if let Some(id) = self.id().filter(|_| with_children) {
            self.tree_read_at = Some(Instant::now());
            let (cpu_below, memory_below) = ProcessTree::of(id).usage_below();
            let resident = memory(&status, "VmRSS:").filter(|_| memory_below > 0);
            let peak_memory = resident.map_or(0, |resident| resident + memory_below);
            self.usage.raise_to(Usage { cpu: own.cpu + cpu_below, peak_memory });
        }
    }

    /// The last lines of its log, to append to an error.
    fn log_end(&self) -> String {
        end_of_log(&self.log)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none() && !matches!(self.runner, Runner::Standing(..)) {
            self.signal(Signal::KILL);
            self.wait_for_child();
        }
    }
}

/// The files with the output and the log of a process.
fn files(site: &Site, name: &str) -> (PathBuf, PathBuf) {
    (site.folder.join(format!("{name}.out")), site.folder.join(format!("{name}.log")))
}

/// The last lines of a log, to append to an error.
fn end_of_log(path: &Path) -> String {
    let text = read_end(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter(|line| !line.starts_with(REMOTE_NUMBER));
    let text = lines.collect::<Vec<_>>().join("\n");
    match text.trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

/// The end of a file, which may be larger than the memory.
fn read_end(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(LOG_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.take(LOG_BYTES).read_to_end(&mut end)?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn output_arrives_in_whole_lines_and_an_error_has_the_log() {
        let (site, _folder) = Site::for_test();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; printf tw; echo oh >&2; exit 3"]);
        let mut process = Process::start(&site, command, "sh").unwrap();
        let error = process.wait_until::<()>(Duration::from_secs(60), |_| Ok(None)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("sh ended with exit status: 3: oh"), "{error}");
        assert_eq!(process.lines().unwrap(), ["one"]);
    }

    #[test]
    fn the_end_of_a_log_that_is_larger_than_the_memory_is_read() {
        let (site, _folder) = Site::for_test();
        let log = site.folder.join("long.log");
        File::create(&log).unwrap().set_len(1 << 40).unwrap();
        let mut end = File::options().append(true).open(&log).unwrap();
        end.write_all(format!("{}\noh\n", " ".repeat(LOG_BYTES as usize)).as_bytes()).unwrap();
        assert_eq!(end_of_log(&log), ": oh");
        assert_eq!(end_of_log(Path::new("/no/such.log")), "");
    }

    #[test]
    fn child_processes_are_measured_and_killed_with_their_program() {
        let (site, _folder) = Site::for_test();
        let mut command = Command::new("sh");
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        command.args(["-c", &format!("sh -c '{busy}; echo done; sleep 60' & wait")]);
        let mut process = Process::start(&site, command, "sh").unwrap();
        let is_done = |process: &mut Process| Ok((!process.lines()?.is_empty()).then_some(()));
        process.wait_until(Duration::from_secs(60), is_done).unwrap();
        let tree = ProcessTree::of(process.id().unwrap());
        assert!(process.usage().cpu >= Duration::from_millis(20), "{:?}", process.usage());
        process.kill();
        while tree.memory() > 0 {
            std::thread::sleep(PAUSE);
        }
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let (site, _folder) = Site::for_test();
        let error = Process::start(&site, Command::new("/no/such-program"), "x").err().unwrap();
        assert_eq!(error.to_string(), "cannot run such-program");
    }
}
