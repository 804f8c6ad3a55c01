//! Agents on other machines, and how they and a controller meet.
//!
//! An agent either listens on one TCP port ([`run_agent`]), and each connection of a controller becomes one worker process;
//! or it joins a load at the controller's port ([`join_load`]), and is one worker itself. In both cases the side that
//! connects greets first, over an encrypted connection ([`Channel`]): its version, its proof that it knows the token, its name
//! and its limit of open files. The other side answers with its own proof, or says why it refuses.

use std::collections::VecDeque;
use std::fmt::Display;
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::net::sockopt::set_tcp_user_timeout;

use crate::engine::StopFlag;
use crate::open_files::raise_open_file_limit;
use crate::secure::{Channel, Side};
use crate::worker::{WORKERS_MAX, WorkerProgram, run_worker};
use crate::workers::Link;

/// A shorter token is rejected: guessing it would allow anyone to start a load from this machine.
const TOKEN_BYTES_MIN: usize = 16;
/// The longest first line, and the time that a connection has until that line is complete.
const GREETING_BYTES_MAX: usize = 1_024;
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// Most connections that have not shown the token yet. The oldest one is closed for a further one: those that know it greet
/// at once, and others would keep them out.
const GREETING_MAX: usize = 256;
/// Workers report every second; a worker that is silent for longer has failed.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The first word that both sides send. It detects another protocol.
const HELLO: &str = "watchfire-load-2";
const WELCOME: &str = "welcome";
const REFUSED: &str = "refused";
/// A controller and its agents exchange figures whose form may change with each version.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The longest name of an agent that joins.
const NAME_CHARS_MAX: usize = 64;

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
    let (files, worker) = (raise_open_file_limit(), worker.clone());
    let workers = AtomicUsize::new(0);
    let serve = move |guest: Result<Guest, String>| {
        let Ok(mut guest) = guest else { return Ok(()) };
        let ran = match workers.fetch_add(1, Ordering::Relaxed) < WORKERS_MAX {
            true => guest.welcome(files).and_then(|()| run_process(&guest.channel, &worker)),
            false => {
                guest.refuse(&format!("runs {WORKERS_MAX} workers already; wait for their loads"))
            }
        };
        workers.fetch_sub(1, Ordering::Relaxed);
        // The thread that reads from it ends, too. The socket may be closed already.
        let _ = guest.stream.shutdown(Shutdown::Both);
        ran
    };
    Door::open(Side::Agent, token, listener, serve);
    Ok(())
}

/// An agent that has come to a controller.
pub(crate) enum Arrived {
    /// It has the scenario, and waits for its share.
    Joined(Link),
    /// Why it was refused.
    Refused(String),
}

/// Lets agents join a load: gives each the job, and sends it on when it is ready. Runs until the process ends.
pub(crate) fn admit(listener: &TcpListener, token: &str, job: &str, sender: &Sender<Arrived>) {
    let (job, sender) = (job.to_owned(), sender.clone());
    let serve = move |guest: Result<Guest, String>| {
        let arrived = match guest {
            Err(cause) => Arrived::Refused(cause),
            Ok(mut guest) => {
                guest.welcome(0)?;
                guest.stream.set_read_timeout(Some(SILENCE_MAX))?;
                let mut link = Link::to_channel(guest.name, guest.channel);
                link.send_job(&job)
                    .and_then(|()| link.wait_until_ready())
                    .map_err(io::Error::other)?;
                Arrived::Joined(link)
            }
        };
        // A load that has ended drops the connection, and its agent ends.
        let _ = sender.send(arrived);
        Ok(())
    };
    Door::open(Side::Controller, token, listener, serve);
}

/// Joins the load of the controller at this address, and runs a share of its users until the load ends or `leave` is set.
/// `begin` is called when the first share arrives.
pub fn join_load(
    address: &str,
    token: &str,
    name: &str,
    leave: &StopFlag,
    begin: impl FnOnce(),
) -> anyhow::Result<()> {
    let peer = format!("the controller at {address}");
    let own = Own { side: Side::Agent, name, files: raise_open_file_limit() };
    let (stream, channel, _) = call(address, token, &own, &peer)?;
    stream.set_read_timeout(None)?;
    // A controller whose machine is gone must not keep its users running.
    set_tcp_user_timeout(&*stream, SILENCE_MAX.as_millis() as u32)?;
    let is_complete = run_worker(BufReader::new(channel.clone()), channel, leave, begin)
        .with_context(|| peer.clone())?;
    anyhow::ensure!(is_complete, "{peer} is gone; the last results did not reach it");
    Ok(())
}

/// The place at which the other side connects.
struct Door {
    side: Side,
    token: String,
    /// Connections that have not shown the token, the oldest first.
    greeting: Mutex<VecDeque<Arc<TcpStream>>>,
}

/// A connection whose other side knows the token, and waits for an answer.
struct Guest {
    stream: Arc<TcpStream>,
    channel: Channel,
    name: String,
    proof: String,
}

impl Guest {
    fn welcome(&mut self, files: u64) -> io::Result<()> {
        self.stream.set_read_timeout(None)?;
        self.channel.deadline = None;
        writeln!(self.channel, "{HELLO} {WELCOME} {} {files}", self.proof)
    }

    fn refuse(&mut self, cause: &str) -> io::Result<()> {
        writeln!(self.channel, "{HELLO} {REFUSED} {cause}")
    }
}

impl Door {
    /// Serves each connection in a thread of its own: a guest, or why one was refused.
    fn open(
        side: Side,
        token: &str,
        listener: &TcpListener,
        serve: impl Fn(Result<Guest, String>) -> io::Result<()> + Send + Sync + 'static,
    ) {
        let token = token.to_owned();
        let door = Arc::new((Door { side, token, greeting: Mutex::default() }, serve));
        for stream in listener.incoming() {
            // Too many open files, or the client has left: the next connection may succeed.
            let Ok(stream) = stream.map(Arc::new) else { continue };
            door.0.begin_greeting(&stream);
            let door = Arc::clone(&door);
            let serve = move || {
                let (door, serve) = &*door;
                let guest = door.greet(&stream);
                door.end_greeting(&stream);
                // A broken connection ends only the load of that guest.
                let _ = guest.and_then(serve);
            };
            // Without a thread, the connection stays until others have come.
            let _ = std::thread::Builder::new().spawn(serve);
        }
    }

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

    /// Reads the greeting of a connection, and answers one that is not valid.
    fn greet(&self, stream: &Arc<TcpStream>) -> io::Result<Result<Guest, String>> {
        let deadline = Instant::now() + GREETING_TIMEOUT;
        let mut channel = Channel::accept(Arc::clone(stream), deadline)?;
        let greeting = read_greeting(&mut channel)?;
        let (proof, name) = match self.check(&channel, &greeting)? {
            Ok(shown) => shown,
            Err(cause) => {
                writeln!(channel, "{HELLO} {REFUSED} {cause}")?;
                let from = stream.peer_addr().map_or_else(|_| String::new(), |at| at.to_string());
                return Ok(Err(format!("{from}: this {} {cause}", self.side.name())));
            }
        };
        Ok(Ok(Guest { stream: Arc::clone(stream), channel, name, proof }))
    }

    /// The proof to answer with and the name of a guest, or why it is refused.
    fn check(
        &self,
        channel: &Channel,
        greeting: &str,
    ) -> io::Result<Result<(String, String), String>> {
        let words: Vec<_> = greeting.split(' ').collect();
        let [HELLO, version, side, proof, name, _files] = words[..] else {
            return Ok(Err(format!("speaks another protocol than {HELLO}")));
        };
        if version != VERSION {
            let cause = format!("runs version {VERSION}, and not {version}; use the same version");
            return Ok(Err(cause));
        }
        if side == self.side.name() {
            return Ok(Err(format!("is itself the {side} of a load")));
        }
        if !is_same(proof, &channel.proof(self.side.other(), &self.token)?) {
            return Ok(Err("rejected the token".to_owned()));
        }
        let name = name.chars().take(NAME_CHARS_MAX).collect();
        Ok(Ok((channel.proof(self.side, &self.token)?, name)))
    }
}

/// Reads the first line of the other side, until the deadline of the channel. Only visible characters are kept.
fn read_greeting(channel: &mut Channel) -> io::Result<String> {
    let (mut line, mut byte) = (String::new(), [0]);
    while line.len() < GREETING_BYTES_MAX {
        match channel.read(&mut byte)? {
            0 => break,
            _ if byte == *b"\n" => break,
            _ if byte[0].is_ascii_graphic() || byte[0] == b' ' => line.push(byte[0].into()),
            _ => {}
        }
    }
    Ok(line)
}

/// Connects a controller to a new worker process, until one of them ends.
fn run_process(channel: &Channel, worker: &WorkerProgram) -> io::Result<()> {
    let (program, arguments) = worker;
    let mut command = Command::new(program);
    let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().expect("the worker's input is a pipe");
    let mut output = child.stdout.take().expect("the worker's output is a pipe");
    let (mut from, mut to) = (channel.clone(), channel.clone());
    std::thread::spawn(move || forward(&mut from, &mut input));
    // Ends when the worker ends, or within a second after the controller has gone.
    let forwarded = forward(&mut output, &mut to);
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

/// Compares two secrets, in a time that depends only on their lengths.
pub fn is_same(a: &str, b: &str) -> bool {
    let differing = a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && differing == 0
}

/// The words of the side that connects.
struct Own<'a> {
    side: Side,
    name: &'a str,
    files: u64,
}

/// Connects to an agent, for one worker there. Returns the open files that it may have, too.
pub(crate) fn connect(agent: &AgentAddress) -> anyhow::Result<(Link, u64)> {
    let own = Own { side: Side::Controller, name: "controller", files: 0 };
    let peer = format!("agent {}", agent.address);
    let (stream, channel, files) = call(&agent.address, &agent.token, &own, &peer)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    Ok((Link::to_channel(agent.address.clone(), channel), files))
}

/// Connects and greets. Returns the open files of the other side, too.
fn call(
    address: &str,
    token: &str,
    own: &Own<'_>,
    peer: &dyn Display,
) -> anyhow::Result<(Arc<TcpStream>, Channel, u64)> {
    let context = || peer.to_string();
    let is_no_peer =
        || anyhow::anyhow!("{address} is not a Watchfire load {}", own.side.other().name());
    let stream = Arc::new(connect_to_any(address).with_context(context)?);
    let deadline = Instant::now() + GREETING_TIMEOUT;
    let channel = Channel::connect(Arc::clone(&stream), deadline);
    let mut channel = channel.map_err(|error| match error.kind() {
        io::ErrorKind::Other | io::ErrorKind::InvalidData => is_no_peer(),
        _ => anyhow::Error::from(error).context(context()),
    })?;
    let Own { side, name, files } = own;
    let proof = channel.proof(*side, token).with_context(context)?;
    let name: String = name.chars().filter(char::is_ascii_graphic).take(NAME_CHARS_MAX).collect();
    writeln!(channel, "{HELLO} {VERSION} {} {proof} {name} {files}", side.name())
        .with_context(context)?;
    let answer = read_greeting(&mut channel).with_context(context)?;
    let answer = answer.strip_prefix(HELLO).map(str::trim).with_context(is_no_peer)?;
    if let Some(cause) = answer.strip_prefix(REFUSED) {
        anyhow::bail!("{peer} {}", cause.trim());
    }
    let expected = channel.proof(side.other(), token).with_context(context)?;
    let [WELCOME, proof, files] = answer.split(' ').collect::<Vec<_>>()[..] else {
        return Err(is_no_peer());
    };
    anyhow::ensure!(is_same(proof, &expected), "{peer} does not know the token");
    channel.deadline = None;
    Ok((stream, channel, files.parse().map_err(|_| is_no_peer())?))
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
        let error = connect(&agent).err().unwrap().to_string();
        assert!(error.ends_with("rejected the token"), "{error}");
        let right = AgentAddress { token: "0123456789abcdef".into(), ..agent };
        assert!(connect(&right).unwrap().1 > 0);
    }

    /// The answer of an agent to a greeting that is sent as it is, after its proof is put in place of `PROOF`.
    fn answer_to(greeting: &str) -> String {
        const TOKEN: &str = "0123456789abcdef";
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || run_agent(&listener, TOKEN, &Default::default()));
        let stream = Arc::new(TcpStream::connect(address).unwrap());
        let mut channel = Channel::connect(stream, Instant::now() + GREETING_TIMEOUT).unwrap();
        let proof = channel.proof(Side::Controller, TOKEN).unwrap();
        writeln!(channel, "{}", greeting.replace("PROOF", &proof)).unwrap();
        read_greeting(&mut channel).unwrap()
    }

    #[test]
    fn another_version_another_protocol_and_the_same_side_are_refused_with_a_reason() {
        let welcome = answer_to(&format!("{HELLO} {VERSION} controller PROOF any 0"));
        assert!(welcome.starts_with("watchfire-load-2 welcome "), "{welcome}");
        for (greeting, cause) in [
            (
                format!("{HELLO} 0.0.1 controller PROOF any 0"),
                "and not 0.0.1; use the same version",
            ),
            (format!("{HELLO} {VERSION} agent PROOF any 0"), "is itself the agent of a load"),
            ("watchfire-load-1 0123456789abcdef".to_owned(), "another protocol"),
            (format!("{HELLO} {VERSION} controller PROOF0 any 0"), "rejected the token"),
        ] {
            let answer = answer_to(&greeting);
            assert!(
                answer.starts_with("watchfire-load-2 refused ") && answer.contains(cause),
                "{answer}"
            );
        }
    }

    #[test]
    fn an_agent_of_another_version_is_told_to_the_controller_and_the_next_one_joins() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (sender, arrived) = std::sync::mpsc::channel();
        std::thread::spawn(move || admit(&listener, "0123456789abcdef", "the job", &sender));
        let greet = |version: &str| {
            let stream = Arc::new(TcpStream::connect(&address).unwrap());
            let mut channel = Channel::connect(stream, Instant::now() + GREETING_TIMEOUT).unwrap();
            let proof = channel.proof(Side::Agent, "0123456789abcdef").unwrap();
            writeln!(channel, "{HELLO} {version} agent {proof} name 0").unwrap();
            let answer = read_greeting(&mut channel).unwrap();
            (channel, answer)
        };
        assert!(greet("0.0.1").1.ends_with("and not 0.0.1; use the same version"));
        let Ok(Arrived::Refused(cause)) = arrived.recv() else { panic!("it is refused") };
        assert!(cause.contains("and not 0.0.1"), "{cause}");
        let (mut channel, _) = greet(VERSION);
        assert_eq!(read_greeting(&mut channel).unwrap(), "the job");
        writeln!(channel, "ready").unwrap();
        assert!(matches!(arrived.recv(), Ok(Arrived::Joined(link)) if link.name() == "name"));
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
        assert!(connect(&right).unwrap().1 > 0);
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
        let error = format!("{:#}", connect(&agent).err().unwrap());
        assert!(error.ends_with("is not a Watchfire load agent"), "{error}");
    }
}
