//! Agents on other machines. An agent listens on one TCP port; each connection of a controller that
//! knows the token becomes one worker process.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::open_files::raise_open_file_limit;
use crate::worker::{WORKERS_MAX, WorkerProgram};

/// A shorter token is rejected: guessing it would allow anyone to start a load from this machine.
const TOKEN_BYTES_MIN: usize = 16;
/// The longest first line, and the time it may take from its first byte to its last.
const GREETING_BYTES_MAX: usize = 1_024;
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// Most connections of which an agent does not know the token yet. The oldest one is closed for a further one: a controller
/// greets at once, and others would keep it out.
const GREETING_MAX: usize = 256;
/// Workers report every second; a worker that is silent for longer has failed.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The first word that both sides send. It detects another protocol.
const HELLO: &str = "watchfire-load-1";
/// The second word of an agent's answer to another token.
const REFUSED: &str = "refused";

/// The address of an agent, and the token that it shares with its controller.
#[derive(Clone, Debug)]
pub struct AgentAddress {
    /// Host and port.
    pub address: String,
    /// The token that the agent was started with.
    pub token: String,
}

/// Parses a token as it was read from a file.
pub fn parse_token(text: &str) -> anyhow::Result<String> {
    let token = text.trim();
    let is_visible = token.bytes().all(|byte| byte.is_ascii_graphic());
    anyhow::ensure!(
        is_visible && (TOKEN_BYTES_MIN..=512).contains(&token.len()),
        "invalid token: it needs {TOKEN_BYTES_MIN} to 512 visible ASCII characters; generate one with `openssl rand -hex 16`"
    );
    Ok(token.to_owned())
}

/// Runs an agent until the process ends.
pub fn run_agent(
    listener: &TcpListener,
    token: &str,
    worker: &WorkerProgram,
) -> anyhow::Result<()> {
    let door = Arc::new(Door {
        token: token.to_owned(),
        worker: worker.clone(),
        files: raise_open_file_limit(),
        workers: AtomicUsize::new(0),
        greeting: Mutex::default(),
    });
    for stream in listener.incoming() {
        // Too many open files, or the client has left: the next connection may succeed.
        let Ok(stream) = stream.map(Arc::new) else { continue };
        door.begin_greeting(&stream);
        let (door, own) = (Arc::clone(&door), Arc::clone(&stream));
        let serve = move || {
            // A broken connection ends only the load of that controller.
            let _ = door.serve_controller(&own);
            door.end_greeting(&own);
            // The socket may be closed already.
            let _ = own.shutdown(Shutdown::Both);
        };
        // Without a thread, the connection stays until others have come.
        let _ = std::thread::Builder::new().spawn(serve);
    }
    Ok(())
}

/// The state that the connections of an agent share.
struct Door {
    token: String,
    worker: WorkerProgram,
    /// The limit of open files of a worker.
    files: u64,
    workers: AtomicUsize,
    /// Connections that have not shown the token, the oldest first.
    greeting: Mutex<VecDeque<Arc<TcpStream>>>,
}

impl Door {
    fn begin_greeting(&self, stream: &Arc<TcpStream>) {
        let mut greeting = self.greeting.lock().unwrap_or_else(PoisonError::into_inner);
        greeting.push_back(Arc::clone(stream));
        if greeting.len() > GREETING_MAX
            && let Some(oldest) = greeting.pop_front()
        {
            // Its thread reads the end, and ends.
            let _ = oldest.shutdown(Shutdown::Both);
        }
    }

    fn end_greeting(&self, stream: &Arc<TcpStream>) {
        let mut greeting = self.greeting.lock().unwrap_or_else(PoisonError::into_inner);
        greeting.retain(|other| !Arc::ptr_eq(other, stream));
    }

    /// Checks the token of a controller, and runs a worker process for it.
    fn serve_controller(&self, stream: &Arc<TcpStream>) -> io::Result<()> {
        let mut out = &**stream;
        let mut reader = BufReader::new(stream.try_clone()?);
        let greeting = read_greeting(&mut reader)?;
        if !is_same(&greeting, &format!("{HELLO} {}", self.token)) {
            return writeln!(out, "{HELLO} {REFUSED}");
        }
        self.end_greeting(stream);
        let run = || {
            writeln!(out, "{HELLO} {}", self.files)?;
            stream.set_read_timeout(None)?;
            run_process(stream, reader, &self.worker)
        };
        let ran = match self.workers.fetch_add(1, Ordering::Relaxed) < WORKERS_MAX {
            true => run(),
            false => writeln!(&**stream, "{HELLO} full"),
        };
        self.workers.fetch_sub(1, Ordering::Relaxed);
        ran
    }
}

/// Reads the first line of the other side, which has [`GREETING_TIMEOUT`] for all of it.
fn read_greeting(reader: &mut BufReader<TcpStream>) -> io::Result<String> {
    let deadline = Instant::now() + GREETING_TIMEOUT;
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < GREETING_BYTES_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        reader.get_ref().set_read_timeout(Some(left))?;
        match reader.read(&mut byte) {
            // A signal, or a machine that stopped for a moment.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => match read? {
                0 => break,
                _ if byte == *b"\n" => break,
                _ => line.extend(byte),
            },
        }
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Connects a controller to a new worker process, until one of them ends.
fn run_process(
    mut stream: &TcpStream,
    mut reader: BufReader<TcpStream>,
    worker: &WorkerProgram,
) -> io::Result<()> {
    let (program, arguments) = worker;
    let mut command = Command::new(program);
    let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().expect("the worker's input is a pipe");
    let mut output = child.stdout.take().expect("the worker's output is a pipe");
    std::thread::spawn(move || forward(&mut reader, &mut input));
    // Ends when the worker ends, or within a second after the controller has gone.
    let forwarded = forward(&mut output, &mut stream);
    // The worker may have ended by itself.
    let _ = child.kill();
    child.wait()?;
    forwarded
}

/// Copies bytes as they arrive. `io::copy` may use splice, which can hold bytes back until more
/// arrive.
fn forward(from: &mut impl io::Read, to: &mut impl io::Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            len => to.write_all(&buffer[..len])?,
        }
    }
}

/// Compares in constant time.
fn is_same(a: &str, b: &str) -> bool {
    let differing = a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && differing == 0
}

/// Connects to an agent. Returns the connection, and the open files that a worker may have there.
pub(crate) fn connect(
    agent: &AgentAddress,
) -> anyhow::Result<(TcpStream, BufReader<TcpStream>, u64)> {
    let address = &agent.address;
    let context = || format!("agent {address}");
    let mut stream = connect_to_any(address).with_context(context)?;
    writeln!(stream, "{HELLO} {}", agent.token).with_context(context)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let answer = read_greeting(&mut reader).with_context(context)?;
    let Some(answer) = answer.strip_prefix(HELLO).map(str::trim) else {
        anyhow::bail!("{address} is not a Watchfire load agent")
    };
    anyhow::ensure!(answer != REFUSED, "agent {address} rejected the token");
    let files = answer.parse().map_err(|_| {
        anyhow::anyhow!("agent {address} runs {WORKERS_MAX} workers already; wait for their loads")
    })?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    Ok((stream, reader, files))
}

/// Connects to the first address of a name that accepts. A name such as `localhost` may have
/// several.
fn connect_to_any(name: &str) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in name.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, GREETING_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_reached_at_any_address_of_its_name() {
        // `localhost` is `::1` first on most machines.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(connect_to_any(&format!("localhost:{port}")).is_ok());
        drop(listener);
        assert!(connect_to_any("127.0.0.1:0").is_err());
    }

    #[test]
    fn tokens_have_a_least_length_and_no_spaces() {
        assert_eq!(parse_token(" 0123456789abcdef\n").unwrap(), "0123456789abcdef");
        for text in ["", "short", "0123456789 abcdef", "ä123456789abcdef"] {
            assert!(parse_token(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_controller_with_another_token_is_rejected() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || run_agent(&listener, "0123456789abcdef", &Default::default()));
        let agent = AgentAddress { address, token: "0123456789abcdeF".into() };
        let error = connect(&agent).unwrap_err().to_string();
        assert!(error.ends_with("rejected the token"), "{error}");
        let right = AgentAddress { token: "0123456789abcdef".into(), ..agent };
        assert!(connect(&right).unwrap().2 > 0);
    }

    #[test]
    fn connections_that_do_not_greet_keep_no_controller_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || run_agent(&listener, "0123456789abcdef", &Default::default()));
        let open = |_| TcpStream::connect(&address).unwrap();
        let mut strangers: Vec<_> = (0..WORKERS_MAX + 1).map(open).collect();
        strangers.iter_mut().for_each(|stranger| drop(stranger.write_all(b"w")));
        let right = AgentAddress { address: address.clone(), token: "0123456789abcdef".into() };
        assert!(connect(&right).unwrap().2 > 0);
        let mut end = [0];
        assert_eq!(strangers[0].read(&mut end).unwrap_or(0), 0, "the oldest one is closed");
    }

    #[test]
    fn a_server_that_is_not_an_agent_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        // The server accepts until the test ends: a closed listener would reset a connection that
        // waits while the server has accepted one of another program.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let _ = stream.write_all(b"220 smtp ready\r\n");
                    // Read until the controller closes: closing earlier could reset its connection.
                    let _ = io::copy(&mut stream, &mut io::sink());
                });
            }
        });
        let agent = AgentAddress { address, token: String::new() };
        let error = format!("{:#}", connect(&agent).unwrap_err());
        assert!(error.ends_with("is not a Watchfire load agent"), "{error}");
    }
}
