//! Restarts, the service manager's protocol, and the health of a server as a real process.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longer than any step on a busy machine; only failures take it.
const DEADLINE: Duration = Duration::from_secs(30);

/// Longer than a process takes to direct new connections elsewhere: it does so at every tick.
const STEERED_WITHIN: Duration = Duration::from_millis(500);

/// A folder with a copy of the program, as an installation has one.
struct Installation {
    folder: PathBuf,
}

impl Installation {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("watchfire-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let installation = Installation { folder };
        installation.install(Path::new(env!("CARGO_BIN_EXE_watchfire")));
        installation
    }

    fn program(&self) -> PathBuf {
        self.folder.join("watchfire")
    }

    /// Replaces the program as package managers do: by a new file under the same name.
    fn install(&self, program: &Path) {
        let new = self.folder.join("watchfire.new");
        // Not written by this process: a program that another thread starts just now would inherit
        // the open file, and the system does not start a program whose file is open for writing.
        let status = Command::new("cp").arg(program).arg(&new).status();
        assert!(status.expect("cp runs").success());
        fs::rename(new, self.program()).expect("it is installed");
    }

    /// Installs a program that ends at once with an error.
    fn install_broken(&self) {
        self.install(Path::new("/bin/false"));
    }

    fn serve(&self, arguments: &[&str]) -> Server {
        let mut command = Command::new(self.program());
        command.arg("serve").args(["--listen", "127.0.0.1:0"]).args(arguments);
        self.start(command)
    }

    /// Starts a server with a socket for its notifications.
    fn start(&self, mut command: Command) -> Server {
        let path = self.folder.join("notify");
        let notifications = UnixDatagram::bind(&path).expect("a socket");
        notifications.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        let log = self.folder.join("log");
        command
            .args(["--set", "server.drain_period=1s", "--set", "stun.enabled=false"])
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
            Server { pid: child.id(), child, address, notifications, log, _output: output };
        server.notified("READY=1");
        server
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A running server, through all its restarts.
struct Server {
    /// The first process. The later ones are not our children.
    child: Child,
    /// The main process.
    pid: u32,
    address: SocketAddr,
    notifications: UnixDatagram,
    log: PathBuf,
    _output: JoinHandle<()>,
}

impl Server {
    /// Waits for a notification that contains a line with this beginning. Returns the rest of it.
    fn notified(&self, beginning: &str) -> String {
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

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn signal(&self, name: &str) {
        signal(self.pid, name);
    }

    /// Restarts the server, and returns the process id of the new program.
    fn restart(&mut self) -> u32 {
        self.signal("-USR2");
        self.pid = self.notified("MAINPID=").parse().expect("a process id");
        self.pid
    }

    /// Stops the server, and waits for the end of all its processes.
    fn stop(&mut self) {
        self.signal("-TERM");
        self.notified("STOPPING=1");
        eventually("all processes end", || !is_alive(self.pid));
        self.child.wait().expect("it ended");
    }

    /// The process ids of the workers.
    fn workers(&self) -> Vec<u32> {
        let path = format!("/proc/{0}/task/{0}/children", self.pid);
        let children = fs::read_to_string(path).expect("a running process");
        children.split_whitespace().map(|pid| pid.parse().expect("a process id")).collect()
    }

    fn get(&self, path: &str) -> (u16, String) {
        get(self.address, path).expect("an answer")
    }

    /// The value of a metric.
    fn metric(&self, name: &str) -> Option<f64> {
        let (_, text) = self.get("/metrics");
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if is_alive(self.pid) {
            self.signal("-KILL");
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(status.expect("kill runs").success());
}

/// Whether a process runs. One that ended, but that its parent has not noticed, does not.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < DEADLINE, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Requests a path over a new connection.
fn get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    get_within(address, path, DEADLINE)
}

fn get_within(
    address: SocketAddr,
    path: &str,
    timeout: Duration,
) -> std::io::Result<(u16, String)> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(timeout))?;
    write!(connection, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut response = String::new();
    connection.read_to_string(&mut response)?;
    let status = response.get(9..12).and_then(|status| status.parse().ok());
    let body = response.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    status.zip(body).ok_or_else(|| std::io::Error::other(format!("no response: {response:?}")))
}

/// A client that connects again and again, until it is asked for its count.
struct Prober {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<u32, String>>,
}

impl Prober {
    fn start(address: SocketAddr) -> Self {
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
    fn count(self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it does not panic").expect("all requests are answered")
    }
}

/// Opens a WebSocket.
fn websocket(address: SocketAddr) -> TcpStream {
    let mut connection = TcpStream::connect(address).expect("a connection");
    connection.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    connection
        .write_all(
            b"GET /socket/websocket?vsn=2.0.0 HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\n\
              upgrade: websocket\r\nsec-websocket-version: 13\r\n\
              sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .expect("it is sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        connection.read_exact(&mut byte).expect("a response");
        head.extend(byte);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    connection
}

/// The code with which the server closes a WebSocket.
fn close_code(mut connection: TcpStream) -> u16 {
    let mut header = [0; 4];
    connection.read_exact(&mut header).expect("a close frame");
    assert_eq!(header[0], 0x88);
    u16::from_be_bytes([header[2], header[3]])
}

#[test]
fn a_restart_starts_the_installed_program_and_answers_every_connection() {
    for processes in ["1", "2"] {
        let installation = Installation::new(&format!("restart-{processes}"));
        let mut server = installation.serve(&["--processes", processes]);
        let prober = Prober::start(server.address);
        let first = server.pid;
        // Twice: the second restart passes on inherited listeners.
        for _ in 0..2 {
            let open = websocket(server.address);
            installation.install(Path::new(env!("CARGO_BIN_EXE_watchfire")));
            let new = server.restart();
            assert_eq!(close_code(open), 1012);
            let inode = |path: &Path| fs::metadata(path).expect("a program").ino();
            let running = PathBuf::from(format!("/proc/{new}/exe"));
            assert_eq!(inode(&running), inode(&installation.program()));
            websocket(server.address);
        }
        server.child.wait().expect("the first program ends");
        assert_ne!(first, server.pid);
        assert!(prober.count() > 0);
        server.stop();
        assert!(TcpStream::connect(server.address).is_err());
    }
}

#[test]
fn a_program_that_does_not_start_leaves_the_running_server_alone() {
    let installation = Installation::new("broken");
    let mut server = installation.serve(&["--processes", "2"]);
    let prober = Prober::start(server.address);
    let mut open = websocket(server.address);
    installation.install_broken();
    server.signal("-USR2");
    eventually("the failure is logged", || server.log().contains("the server continues unchanged"));
    assert!(server.log().contains("exit status: 1"), "{}", server.log());
    open.set_nonblocking(true).expect("a mode");
    let error = open.read(&mut [0; 1]).expect_err("it is open and silent");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);

    installation.install(Path::new(env!("CARGO_BIN_EXE_watchfire")));
    server.restart();
    assert!(prober.count() > 0);
    server.stop();
}

#[test]
fn a_restart_applies_changed_settings_also_to_addresses_and_processes() {
    let installation = Installation::new("settings");
    let settings = installation.folder.join("settings.toml");
    let write = |listen: &str, processes: u32| {
        let text = format!("[server]\nlisten = [{listen}]\nprocesses = {processes}\nshards = 1\n");
        fs::write(&settings, text).expect("a file");
    };
    write(r#""127.0.0.1:0", "127.0.0.2:0""#, 1);
    let mut command = Command::new(installation.program());
    command.arg("serve").arg("--config").arg(&settings);
    let mut server = installation.start(command);
    let (first, port) = (server.address, server.address.port());
    let second = SocketAddr::from(([127, 0, 0, 2], port));
    let third = SocketAddr::from(([127, 0, 0, 3], port));
    assert!(get(second, "/healthz").is_ok() && get(third, "/healthz").is_err());

    let prober = Prober::start(first);
    // More processes than sockets, one address less and another one more.
    write(&format!(r#""127.0.0.1:0", "{third}""#), 3);
    let old = server.pid;
    server.restart();
    assert!(get(third, "/healthz").is_ok());
    eventually("the old server ends", || !is_alive(old));
    assert!(get(second, "/healthz").is_err());
    assert_eq!(server.workers().len(), 3);

    // Fewer processes than sockets.
    write(r#""127.0.0.1:0""#, 1);
    server.restart();
    let answers = (0..50).filter(|_| get(first, "/readyz").is_ok_and(|(status, _)| status == 200));
    assert_eq!(answers.count(), 50);
    assert!(prober.count() > 0);
    server.stop();
}

#[test]
fn a_socket_of_the_service_manager_replaces_the_configured_ones_and_is_passed_on() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let installation = Installation::new("activation");
    // As a service manager does: the socket is descriptor 3, and the pid is that of the program.
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec 3<&0 </dev/null; LISTEN_PID=$$ exec "$0" "$@""#]);
    command.arg(installation.program()).args(["serve", "--listen", "127.0.0.9:1"]);
    command.args(["--processes", "2", "--set", "server.shards=2"]);
    command.env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", "watchfire.socket");
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)));
    let mut server = installation.start(command);
    assert_eq!(server.address, address);
    let prober = Prober::start(address);
    for _ in 0..100 {
        drop(websocket(address));
    }
    server.restart();
    drop(websocket(address));
    assert!(prober.count() > 0);
    server.stop();
}

#[test]
fn a_descriptor_that_is_not_a_listener_is_an_error() {
    let installation = Installation::new("not-a-listener");
    let (socket, _other) = std::os::unix::net::UnixStream::pair().expect("sockets");
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec 3<&0 </dev/null; LISTEN_PID=$$ exec "$0" serve"#]);
    command.arg(installation.program()).env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", "clients");
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(socket)));
    let output = command.output().expect("it runs");
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("cannot use the socket 0 (clients) of the service manager"), "{error}");
    assert!(error.contains("set ListenStream to an address and a port"), "{error}");
}

#[test]
fn the_watchdog_of_the_service_manager_is_served() {
    for processes in ["1", "2"] {
        let installation = Installation::new(&format!("watchdog-{processes}"));
        let mut command = Command::new(installation.program());
        command.args(["serve", "--listen", "127.0.0.1:0", "--processes", processes]);
        command.env("WATCHDOG_USEC", "1000000");
        let mut server = installation.start(command);
        for _ in 0..3 {
            server.notified("WATCHDOG=1");
        }
        server.restart();
        // The old program reports only once more, together with the new process id.
        for _ in 0..3 {
            server.notified("WATCHDOG=1");
        }
        server.stop();
    }
}

#[test]
fn a_stopped_process_is_missing_then_replaced_and_new_clients_go_elsewhere() {
    // The first process directs new connections, until it does not respond.
    let first = std::thread::spawn(|| stop_and_replace(0));
    stop_and_replace(1);
    first.join().expect("the first process is replaced as well");
}

fn stop_and_replace(slot: usize) {
    let installation = Installation::new(&format!("stopped-{slot}"));
    let mut server = installation.serve(&["--processes", "2"]);
    let (status, body) = server.get("/readyz");
    assert_eq!(status, 200, "{body}");
    assert!(body.contains(r#""processes":{"missing":[],"of":2,"ok":true,"up":2}"#), "{body}");
    let (address, stopped) = (server.address, server.workers()[slot]);
    signal(stopped, "-STOP");
    let began = Instant::now();
    // A request that the stopped process gets is answered by the one that replaces it.
    let waiting: Vec<_> = (0..8)
        .map(|_| std::thread::spawn(move || get(address, "/healthz").map(|(status, _)| status)))
        .collect();
    let missing = format!(r#""processes":{{"missing":[{slot}],"of":2,"ok":false,"up":1}}"#);
    let is_missing = || {
        let answer = get_within(address, "/readyz", Duration::from_millis(300));
        answer.is_ok_and(|(status, body)| status == 503 && body.contains(&missing))
    };
    eventually("the process is missing", is_missing);
    // From now on, no new connection goes to the stopped process.
    std::thread::sleep(STEERED_WITHIN);
    for _ in 0..20 {
        let answer = get_within(address, "/healthz", Duration::from_secs(2));
        if !is_alive(stopped) {
            // The process that replaces it gets connections again, and may take a moment to start.
            break;
        }
        assert_eq!(answer.map(|(status, _)| status).ok(), Some(200));
    }
    eventually("it is replaced", || !is_alive(stopped));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(12), "{took:?}");
    eventually("all processes serve", || server.get("/readyz").0 == 200);
    for request in waiting {
        assert_eq!(request.join().expect("it does not panic").expect("an answer"), 200);
    }
    assert_eq!(server.metric("watchfire_process_hangs_total"), Some(1.0));
    assert_eq!(server.metric("watchfire_process_restarts_total"), Some(1.0));
    assert!(server.log().contains("did not respond"), "{}", server.log());
    server.stop();
}
