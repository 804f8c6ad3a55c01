//! Agents on other machines. An agent listens on one TCP port; each connection of a controller that
//! knows the token becomes one worker process.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;

use crate::open_files::raise_open_file_limit;
use crate::worker::{WORKERS_MAX, WorkerProgram};

/// A shorter token is rejected: guessing it would allow anyone to start a load from this machine.
const TOKEN_BYTES_MIN: usize = 16;
/// The longest first line, and the time it may take.
const GREETING_BYTES_MAX: u64 = 1_024;
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// Workers report every second; a worker that is silent for longer has failed.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The first word that both sides send. It detects another protocol.
const HELLO: &str = "watchfire-load-1";

/// The address of an agent, and the token that it shares with its controller.
#[derive(Clone, Debug)]
pub struct AgentAddress {
    /// Host and port.
    pub address: String,
    /// The token that the agent was started with.
    pub token: String,
}

/// Parse a token as it was read from a file.
pub fn parse_token(text: &str) -> anyhow::Result<String> {
    let token = text.trim();
    let is_visible = token.bytes().all(|byte| byte.is_ascii_graphic());
    anyhow::ensure!(
        is_visible && (TOKEN_BYTES_MIN..=512).contains(&token.len()),
        "invalid token: it needs {TOKEN_BYTES_MIN} to 512 visible ASCII characters; generate one with `openssl rand -hex 16`"
    );
    Ok(token.to_owned())
}

/// Run an agent until the process ends.
pub fn run_agent(
    listener: &TcpListener,
    token: &str,
    worker: &WorkerProgram,
) -> anyhow::Result<()> {
    let files = raise_open_file_limit();
    let workers = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let (token, worker, workers) = (token.to_owned(), worker.clone(), Arc::clone(&workers));
        // Too many open files, or the client has left: the next connection may succeed.
        let Ok(stream) = stream else { continue };
        std::thread::spawn(move || {
            if workers.fetch_add(1, Ordering::Relaxed) < WORKERS_MAX {
                // A broken connection ends only the load of that controller.
                let _ = serve_controller(&stream, &token, files, &worker);
            }
            workers.fetch_sub(1, Ordering::Relaxed);
            // The socket may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}

/// Check the token of a controller, and connect it to a new worker process.
fn serve_controller(
    mut stream: &TcpStream,
    token: &str,
    files: u64,
    worker: &WorkerProgram,
) -> io::Result<()> {
    stream.set_read_timeout(Some(GREETING_TIMEOUT))?;
    let mut greeting = String::new();
    let mut reader = BufReader::new(stream.try_clone()?);
    (&mut reader).take(GREETING_BYTES_MAX).read_line(&mut greeting)?;
    if !is_same(greeting.trim_end(), &format!("{HELLO} {token}")) {
        return writeln!(stream, "{HELLO} refused");
    }
    writeln!(stream, "{HELLO} {files}")?;
    stream.set_read_timeout(None)?;

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

/// Copy bytes as they arrive. `io::copy` may use splice, which can hold bytes back until more
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

/// Compare in constant time.
fn is_same(a: &str, b: &str) -> bool {
    let differing = a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && differing == 0
}

/// Connect to an agent. Returns the connection, and the open files that a worker may have there.
pub(crate) fn connect(
    agent: &AgentAddress,
) -> anyhow::Result<(TcpStream, BufReader<TcpStream>, u64)> {
    let address = &agent.address;
    let context = || format!("agent {address}");
    let mut stream = connect_to_any(address).with_context(context)?;
    stream.set_read_timeout(Some(GREETING_TIMEOUT))?;
    writeln!(stream, "{HELLO} {}", agent.token).with_context(context)?;
    let mut answer = String::new();
    let mut reader = BufReader::new(stream.try_clone()?);
    (&mut reader).take(GREETING_BYTES_MAX).read_line(&mut answer).with_context(context)?;
    let files = answer.trim_end().strip_prefix(HELLO).map(str::trim);
    match files.map(str::parse) {
        Some(Ok(files)) => {
            stream.set_read_timeout(Some(SILENCE_MAX))?;
            Ok((stream, reader, files))
        }
        Some(Err(_)) => anyhow::bail!("agent {address} rejected the token"),
        None => anyhow::bail!("{address} is not a Watchfire load agent"),
    }
}

/// Connect to the first address of a name that accepts. A name such as `localhost` may have several.
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
    fn a_server_that_is_not_an_agent_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"220 smtp ready\r\n").unwrap();
            // Read until the controller closes: closing earlier could reset its connection.
            let _ = io::copy(&mut stream, &mut io::sink());
        });
        let agent = AgentAddress { address, token: String::new() };
        assert!(
            connect(&agent).unwrap_err().to_string().ends_with("is not a Watchfire load agent")
        );
    }
}
