//! A server as a real process, with everything that a service manager would give it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;
use watchfire_testkit::{DEADLINE, Request, eventually, is_running, signal};

/// A folder with a copy of the program, as an installation has one.
pub struct Installation {
    pub folder: TempDir,
}

impl Installation {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let installation = Installation { folder };
        installation.install(Path::new(env!("CARGO_BIN_EXE_watchfire")));
        installation
    }

    pub fn program(&self) -> PathBuf {
        self.folder.path().join("watchfire")
    }

    /// Replaces the program as package managers do: by a new file under the same name.
    pub fn install(&self, program: &Path) {
        let new = self.folder.path().join("watchfire.new");
        // Not written by this process: a program that another thread starts just now would inherit
        // the open file, and the system does not start a program whose file is open for writing.
        let status = Command::new("cp").arg(program).arg(&new).status();
        assert!(status.expect("cp runs").success());
        fs::rename(new, self.program()).expect("it is installed");
    }

    /// Installs a program that ends immediately with an error.
    pub fn install_broken(&self) {
        self.install(Path::new("/bin/false"));
    }

    pub fn serve(&self, arguments: &[&str]) -> Server {
        let mut command = Command::new(self.program());
        command.arg("serve").args(["--listen", "127.0.0.1:0"]).args(arguments);
        self.start(command)
    }

    /// Starts a server with a socket for its notifications.
    pub fn start(&self, mut command: Command) -> Server {
        let path = self.folder.path().join("notify");
        let notifications = UnixDatagram::bind(&path).expect("a socket");
        notifications.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        let log = self.folder.path().join("log");
        // The program that replaces this one has the same address, so the port cannot be 0.
        let admin = free_address();
        command
            .args(["--set", "stun.enabled=false", "--set", &format!("admin.listen={admin}")])
            // A flag overrides it.
            .env("WATCHFIRE_SERVER_DRAIN_PERIOD", "1s")
            .env("NOTIFY_SOCKET", &path)
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).expect("a log"));
        let mut child = command.spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let link = lines
            .find_map(|line| {
                let line = line.expect("text");
                Some(line.strip_prefix("Watchfire is running at http://localhost:")?.to_owned())
            })
            .unwrap_or_else(|| panic!("{}", fs::read_to_string(&log).unwrap_or_default()));
        // The pipe stays open, for the program that replaces this one.
        let output = std::thread::spawn(move || lines.for_each(drop));
        let address = SocketAddr::from(([127, 0, 0, 1], link.parse().expect("a port")));
        let server =
            Server { pid: child.id(), child, address, admin, notifications, log, _output: output };
        server.notified("READY=1");
        server
    }
}

/// A running server, through all its restarts.
pub struct Server {
    /// The first process. The later ones are not our children.
    pub child: Child,
    pub pid: u32,
    pub address: SocketAddr,
    /// The operator's listener.
    admin: SocketAddr,
    notifications: UnixDatagram,
    log: PathBuf,
    _output: JoinHandle<()>,
}

impl Server {
    /// Waits for a notification that contains a line with this beginning. Returns the rest of it.
    pub fn notified(&self, beginning: &str) -> String {
        let mut buffer = [0; 1024];
        loop {
            let len = self
                .notifications
                .recv(&mut buffer)
                .unwrap_or_else(|error| panic!("no {beginning}: {error}\n{}", self.log()));
            let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
            if let Some(rest) = text.lines().find_map(|line| line.strip_prefix(beginning)) {
                return rest.to_owned();
            }
        }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn signal(&self, name: &str) {
        signal(self.pid, name);
    }

    /// Restarts the server, and returns the process id of the new program.
    pub fn restart(&mut self) -> u32 {
        self.signal("-USR2");
        self.pid = self.notified("MAINPID=").parse().expect("a process id");
        self.pid
    }

    /// Stops the server, and waits for the end of all its processes.
    pub fn stop(&mut self) {
        self.signal("-TERM");
        self.notified("STOPPING=1");
        eventually("all processes end", || !is_running(self.pid));
        self.child.wait().expect("it ended");
    }

    pub fn workers(&self) -> Vec<u32> {
        let path = format!("/proc/{0}/task/{0}/children", self.pid);
        let children = fs::read_to_string(path).expect("a running process");
        children.split_whitespace().map(|pid| pid.parse().expect("a process id")).collect()
    }

    pub fn get(&self, path: &str) -> (u16, String) {
        get(self.address, path).expect("an answer")
    }

    pub fn metric(&self, name: &str) -> Option<f64> {
        let (_, text) = get(self.admin, "/metrics").ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if is_running(self.pid) {
            self.signal("-KILL");
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address that was free a moment ago.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address")
}

/// Whether all threads of a process are stopped by a signal.
pub fn is_stopped(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

pub fn get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    get_within(address, path, DEADLINE)
}

pub fn get_within(
    address: SocketAddr,
    path: &str,
    timeout: Duration,
) -> std::io::Result<(u16, String)> {
    let answer = Request::get(path).within(timeout).try_to(address)?;
    Ok((answer.status, answer.text().to_owned()))
}

/// A client that connects again and again, until it is asked for its count.
pub struct Prober {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<u32, String>>,
}

impl Prober {
    pub fn start(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut count = 0;
            while !stopped.load(Ordering::Relaxed) {
                match get(address, "/healthz") {
                    Ok((200, _)) => count += 1,
                    other => return Err(format!("request {count}: {other:?}")),
                }
            }
            Ok(count)
        });
        Prober { stop, thread }
    }

    /// The number of requests, all of which were answered.
    pub fn count(self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic").expect("all requests are answered")
    }
}
