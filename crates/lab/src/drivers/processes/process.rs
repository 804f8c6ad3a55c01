//! A process of a node: its output line by line, its log, its CPU time and its memory.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::network::Site;
use super::process_tree::ProcessTree;
use super::workspace::MARK;
use crate::hosts::{Connection, HostError};
use crate::machine::cpu_ticks;

/// The interval in which a process is asked whether it has ended.
const PAUSE: Duration = Duration::from_millis(5);
/// The end of a log that an error contains.
const LOG_BYTES: u64 = 600;
/// The CPU time of a tick in `/proc/PID/stat`, which Linux fixes for programs.
const TICK: Duration = Duration::from_millis(10);
/// The exit code with which `ssh` says that it failed itself.
const SSH_FAILED: i32 = 255;
/// The begin of the first line in the log of a process on another host; its number follows.
const REMOTE_NUMBER: &str = "process ";
/// The interval in which the memory and CPU time of a program's child processes are read while it runs. A browser has ten
/// processes with many threads, and there may be a browser for each node.
const TREE_INTERVAL: Duration = Duration::from_secs(1);
/// The name of the peak resident memory in `/proc/PID/status`.
pub const PEAK: &str = "VmHWM:";
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

/// CPU time and peak memory of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu: Duration,
    pub peak_memory: u64,
}

impl Usage {
    /// Adds another program of the same kind: CPU times add up, and the largest peak counts.
    pub fn add(&mut self, other: Usage) {
        self.cpu += other.cpu;
        self.peak_memory = self.peak_memory.max(other.peak_memory);
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

/// A process that is killed when this is dropped, unless it was left.
pub struct Process {
    program: String,
    /// The host on which it runs, if it is another one. Then the child is its `ssh`.
    host: Option<Arc<Connection>>,
    child: Child,
    output: File,
    /// Output that was read and is not a whole line yet.
    rest: Vec<u8>,
    read_bytes: usize,
    log: PathBuf,
    ended: Option<ExitStatus>,
    is_left: bool,
    peak_memory: u64,
    cpu: Duration,
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
        let (out, log) =
            (site.folder.join(format!("{name}.out")), site.folder.join(format!("{name}.log")));
        let create = |path: &Path| File::create(path).map_err(NodeError::file(path));
        let mut command = site.command(command);
        command.stdin(input).stdout(create(&out)?).stderr(create(&log)?);
        command.env(MARK, &site.run).current_dir(&site.folder);
        command.envs(site.environment.iter().map(|(name, value)| (name, value)));
        let child = site
            .spawn(command)
            .map_err(|source| NodeError::Spawn { program: program.clone(), source })?;
        let output = File::open(&out).map_err(NodeError::file(&out))?;
        Ok(Process {
            program,
            host: site.remote.as_ref().map(|remote| Arc::clone(&remote.connection)),
            child,
            output,
            rest: Vec::new(),
            read_bytes: 0,
            log,
            ended: None,
            is_left: false,
            peak_memory: 0,
            cpu: Duration::ZERO,
            tree_read_at: None,
        })
    }

    /// Writes a line to its input, which was piped.
    pub fn write_line(&mut self, line: &str) -> Result<(), NodeError> {
        self.check_running()?;
        let Some(input) = &mut self.child.stdin else { return Ok(()) };
        let written = writeln!(input, "{line}").and_then(|()| input.flush());
        let program = self.program.clone();
        written.map_err(|error| NodeError::Unexpected { program, problem: error.to_string() })
    }

    /// Leaves it running when this is dropped. Returns its number.
    pub fn leave(mut self) -> u32 {
        self.is_left = true;
        self.child.id()
    }

    /// Names its program, where the command only starts it.
    pub fn called(mut self, program: &str) -> Process {
        self.program = program.to_owned();
        self
    }

    /// Its number, if it runs on this machine.
    pub fn id(&self) -> Option<u32> {
        self.host.is_none().then(|| self.child.id())
    }

    pub fn program(&self) -> &str {
        &self.program
    }

    /// The lines that it wrote since the last call.
    pub fn lines(&mut self) -> Result<Vec<String>, NodeError> {
        let mut new = Vec::new();
        let mut rest = (&self.output).take((OUTPUT_BYTES_MAX - self.read_bytes) as u64);
        rest.read_to_end(&mut new).map_err(NodeError::file(&self.log))?;
        self.read_bytes += new.len();
        self.rest.extend(new);
        Ok(take_lines(&mut self.rest))
    }

    /// Whether it has ended. Its memory and CPU time are read as long as it runs.
    pub fn has_ended(&mut self) -> Result<Option<ExitStatus>, NodeError> {
        if self.ended.is_none() {
            // On another host this would cost a round trip each time.
            if self.host.is_none() {
                let is_due = self.tree_read_at.is_none_or(|at| at.elapsed() > TREE_INTERVAL);
                self.measure(is_due);
            }
            let ended = self.child.try_wait();
            self.ended = ended
                .map_err(|source| NodeError::Spawn { program: self.program.clone(), source })?;
        }
        Ok(self.ended)
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
        if let Some(host) = self.host.as_ref().filter(|_| status.code() == Some(SSH_FAILED)) {
            let (host, program) = (host.name().to_owned(), &self.program);
            let problem = format!("the connection broke while {program} ran{}", self.log_end());
            return NodeError::Host(HostError::Failed { host, problem });
        }
        NodeError::Ended { program: self.program.clone(), status, log: self.log_end() }
    }

    /// Waits until `is_ready` finds what it looks for in the lines that the process writes.
    pub fn wait_until<T>(
        &mut self,
        timeout: Duration,
        mut is_ready: impl FnMut(&mut Process) -> Result<Option<T>, NodeError>,
    ) -> Result<T, NodeError> {
        let started_at = Instant::now();
        loop {
            if let Some(found) = is_ready(self)? {
                return Ok(found);
            }
            self.check_running()?;
            if started_at.elapsed() > timeout {
                return Err(NodeError::NotReady {
                    program: self.program.clone(),
                    seconds: timeout.as_secs(),
                    log: self.log_end(),
                });
            }
            std::thread::sleep(PAUSE);
        }
    }

    pub fn signal(&mut self, signal: Signal) {
        if let (None, Some(host)) = (self.ended, &self.host) {
            if let Some(number) = self.remote_number() {
                let _ = host.run(&format!("kill -{} {number}", signal.as_raw()));
            }
        } else if self.ended.is_none()
            && let Some(pid) = Pid::from_raw(self.child.id().cast_signed())
        {
            // The process is not waited for yet, so the number is still its own.
            let _ = kill_process(pid, signal);
        }
    }

    /// Sends a signal and waits for the end.
    pub fn stop(&mut self, signal: Signal, timeout: Duration) -> Result<ExitStatus, NodeError> {
        self.measure(true);
        self.signal(signal);
        self.end(timeout)
    }

    /// Waits for the end.
    pub fn end(&mut self, timeout: Duration) -> Result<ExitStatus, NodeError> {
        let started_at = Instant::now();
        loop {
            if let Some(status) = self.has_ended()? {
                return Ok(status);
            }
            if started_at.elapsed() > timeout {
                return Err(NodeError::NotEnded {
                    program: self.program.clone(),
                    seconds: timeout.as_secs(),
                    log: self.log_end(),
                });
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Ends it without a chance to say anything.
    pub fn kill(&mut self) {
        self.measure(true);
        self.kill_remote();
        // Its child processes would tell others that it has ended.
        let tree = self.id().map(ProcessTree::of);
        let _ = self.child.kill();
        tree.inspect(ProcessTree::kill);
        let _ = self.child.wait().map(|status| self.ended = Some(status));
    }

    /// Its CPU time and its peak memory, until now or until its end.
    pub fn usage(&mut self) -> Usage {
        self.measure(true);
        Usage { cpu: self.cpu, peak_memory: self.peak_memory }
    }

    /// The number of the process on its host: the first line of its log.
    fn remote_number(&self) -> Option<u32> {
        let mut line = String::new();
        BufReader::new(File::open(&self.log).ok()?.take(LOG_BYTES)).read_line(&mut line).ok()?;
        line.strip_prefix(REMOTE_NUMBER)?.trim_end().parse().ok()
    }

    fn kill_remote(&self) {
        if let (Some(host), Some(number)) = (&self.host, self.remote_number()) {
            let _ = host.run(&format!("kill -KILL {number}"));
        }
    }

    fn measure_remote(&mut self, host: &Connection) {
        let Some(number) = self.remote_number() else { return };
        let read = host.run(&format!("cat /proc/{number}/stat /proc/{number}/status"));
        let text = read.unwrap_or_default();
        let (stat, status) = text.split_once('\n').unwrap_or_default();
        self.peak_memory = self.peak_memory.max(memory(status, PEAK).unwrap_or(0));
        self.cpu = self.cpu.max(cpu(stat).unwrap_or_default());
    }

    /// Reads its CPU time and its memory; with its child processes, which takes longer, if that is wanted.
    fn measure(&mut self, with_children: bool) {
        if self.ended.is_some() {
            return;
        }
        if let Some(host) = self.host.clone() {
            return self.measure_remote(&host);
        }
        let folder = PathBuf::from(format!("/proc/{}", self.child.id()));
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        // Both are unreadable, or 0, once the process ends.
        let status = read("status");
        self.peak_memory = self.peak_memory.max(memory(&status, PEAK).unwrap_or(0));
        let own = cpu(&read("stat")).unwrap_or_default();
        self.cpu = self.cpu.max(own);
        if with_children {
            self.tree_read_at = Some(Instant::now());
            let (below, memory_below) = ProcessTree::of(self.child.id()).usage_below();
            self.cpu = self.cpu.max(own + below);
            let resident = memory(&status, "VmRSS:").unwrap_or(0);
            if memory_below > 0 {
                self.peak_memory = self.peak_memory.max(resident + memory_below);
            }
        }
    }

    /// The last lines of its log, to append to an error.
    fn log_end(&self) -> String {
        end_of_log(&self.log)
    }
}

/// The last lines of a log, to append to an error.
pub fn end_of_log(path: &Path) -> String {
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

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none() && !self.is_left {
            self.kill_remote();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Takes the whole lines out of bytes that were read.
pub fn take_lines(bytes: &mut Vec<u8>) -> Vec<String> {
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
    let whole: Vec<u8> = bytes.drain(..=end).collect();
    String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect()
}

/// A size in `/proc/PID/status`, such as that after `VmHWM:`.
pub fn memory(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

pub fn cpu(stat: &str) -> Option<Duration> {
    cpu_ticks(stat).map(|ticks| TICK * u32::try_from(ticks).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_a_process_are_read() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 7 3 20 0";
        assert_eq!(cpu(stat), Some(Duration::from_millis(2100)));
        assert_eq!(cpu("12 (a) S 1"), None);
        assert_eq!(memory("Name:\ta\nVmHWM:\t  2048 kB\n", PEAK), Some(2 << 20));
        assert_eq!(memory("", PEAK), None);
    }

    #[test]
    fn output_arrives_in_whole_lines_and_an_error_has_the_log() {
        let site = Site::for_test("output");
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; printf tw; echo oh >&2; exit 3"]);
        let mut process = Process::start(&site, command, "sh").unwrap();
        let error = process.wait_until::<()>(Duration::from_secs(60), |_| Ok(None)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("sh ended with exit status: 3: oh"), "{error}");
        assert_eq!(process.lines().unwrap(), ["one"]);
        fs::remove_dir_all(&site.folder).unwrap();
    }

    #[test]
    fn the_end_of_a_log_that_is_larger_than_the_memory_is_read() {
        let site = Site::for_test("log");
        let log = site.folder.join("long.log");
        File::create(&log).unwrap().set_len(1 << 40).unwrap();
        let mut end = File::options().append(true).open(&log).unwrap();
        end.write_all(format!("{}\noh\n", " ".repeat(LOG_BYTES as usize)).as_bytes()).unwrap();
        assert_eq!(end_of_log(&log), ": oh");
        assert_eq!(end_of_log(Path::new("/no/such.log")), "");
        fs::remove_dir_all(&site.folder).unwrap();
    }

    #[test]
    fn child_processes_are_measured_and_killed_with_their_program() {
        let site = Site::for_test("tree");
        let mut command = Command::new("sh");
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        command.args(["-c", &format!("sh -c '{busy}; echo done; sleep 60' & wait")]);
        let mut process = Process::start(&site, command, "sh").unwrap();
        let is_done = |process: &mut Process| Ok((!process.lines()?.is_empty()).then_some(()));
        process.wait_until(Duration::from_secs(60), is_done).unwrap();
        let tree = ProcessTree::of(process.child.id());
        assert!(process.usage().cpu >= Duration::from_millis(20), "{:?}", process.usage());
        process.kill();
        while tree.memory() > 0 {
            std::thread::sleep(PAUSE);
        }
        fs::remove_dir_all(&site.folder).unwrap();
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let site = Site::for_test("missing");
        let error = Process::start(&site, Command::new("/no/such-program"), "x").err().unwrap();
        assert_eq!(error.to_string(), "cannot run such-program");
        fs::remove_dir_all(&site.folder).unwrap();
    }
}
