//! Runs of the program in temporary folders.

use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use watchfire_testkit::{Request, signal};

pub const WATCHFIRE: &str = env!("CARGO_BIN_EXE_watchfire");

/// A folder that is removed after the test.
pub struct Scratch(TempDir);

impl Scratch {
    pub fn new() -> Self {
        Scratch(tempfile::tempdir().expect("a folder can be made"))
    }

    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) {
        write(&self.join(name), bytes);
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        run_in(self, arguments)
    }

    /// A command whose cache is in this folder, too.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(WATCHFIRE);
        command.args(arguments).current_dir(&**self).stdin(Stdio::null());
        command.env("XDG_CACHE_HOME", self.join("cache"));
        command
    }

    pub fn json(&self, name: &str) -> Value {
        let text = fs::read_to_string(self.join(name)).expect("the file can be read");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The standard output of a run that succeeds.
    pub fn prints(&self, arguments: &[&str]) -> String {
        text(&succeeded(self.run(arguments)).stdout)
    }

    pub fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", text(&output.stdout));
        text(&output.stderr)
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

/// Writes a file, and makes its folder.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
    fs::write(path, bytes).expect("a file can be written");
}

/// The names of all files in a folder, sorted, including hidden ones.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("UTF-8");
    let mut names: Vec<_> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort();
    names
}

/// The folder of the repository.
pub fn repository() -> PathBuf {
    fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).unwrap()
}

/// Adds the Markdown files at a path, without those of packages of others.
pub fn find_documents(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() && !path.ends_with("node_modules") {
        for entry in fs::read_dir(path).unwrap() {
            find_documents(&entry.unwrap().path(), found);
        }
    } else if path.extension().is_some_and(|extension| extension == "md") {
        found.push(path.to_owned());
    }
}

pub fn run_in(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(WATCHFIRE);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.output().expect("the program runs")
}

#[track_caller]
pub fn succeeded(output: Output) -> Output {
    assert!(output.status.success(), "{}", text(&output.stderr));
    output
}

/// A process that serves content and prints events. It is killed after the test.
pub struct Serving {
    pub child: Child,
    events: BufReader<ChildStdout>,
}

impl Serving {
    pub fn start(folder: &Path, verb: &str, arguments: &[&str]) -> Self {
        Serving::spawn(folder, verb, arguments, Stdio::null())
    }

    /// Starts a process whose standard input is a pipe.
    pub fn start_with_input(folder: &Path, verb: &str, arguments: &[&str]) -> Self {
        Serving::spawn(folder, verb, arguments, Stdio::piped())
    }

    fn spawn(folder: &Path, verb: &str, arguments: &[&str], input: Stdio) -> Self {
        let mut command = Command::new(WATCHFIRE);
        command
            .stdin(input)
            .args([verb, "--json", "--listen", "/ip4/127.0.0.1/tcp/0"])
            .args(arguments);
        command.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program runs");
        let events = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        Serving { child, events }
    }

    pub fn event(&mut self, kind: &str) -> Value {
        loop {
            let mut line = String::new();
            let len = self.events.read_line(&mut line).expect("it can be read");
            assert!(len > 0, "the process ended before {kind}: {:?}", self.child.wait());
            let event: Value = serde_json::from_str(&line).expect("JSON");
            if event["event"] == kind {
                return event;
            }
        }
    }

    pub fn link(&mut self, kind: &str) -> String {
        self.event(kind)["link"].as_str().expect("a link").to_owned()
    }

    /// Its exit code after an interrupt.
    pub fn interrupt(&mut self) -> Option<i32> {
        signal(self.child.id(), "-INT");
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that listens on a free port; it is killed after the test.
pub struct Listening {
    pub child: Child,
    pub port: String,
}

impl Listening {
    pub fn start(arguments: &[&str]) -> Listening {
        let mut command = Command::new(WATCHFIRE);
        command.args(arguments).args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output is a pipe");
        BufReader::new(output).read_line(&mut line).expect("the process prints its address");
        let port = line.trim().rsplit(':').next().expect("a port").to_owned();
        Listening { child, port }
    }

    pub fn url(&self) -> String {
        format!("ws://{}", self.address())
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.child.kill().expect("it can be ended");
        self.child.wait().expect("it ends");
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All pages of the dashboard whose address a command writes to its errors. The first is the one at the address.
pub fn dashboard_pages(errors: &mut impl Read) -> Vec<String> {
    let mut line = String::new();
    BufReader::new(errors).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("The dashboard is at http://").expect(&line);
    let address = address.trim_end_matches('/').to_owned();
    let page = Request::get("/").to(&*address);
    assert_eq!(page.status, 200);
    let page = page.text().to_owned();
    assert!(page.contains("new EventSource"), "{page}");
    let events = Request::get("/events").send(&*address).unwrap();
    let lines = BufReader::new(events).lines().map_while(Result::ok);
    let pages = lines.filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok());
    std::iter::once(page).chain(pages).collect()
}
