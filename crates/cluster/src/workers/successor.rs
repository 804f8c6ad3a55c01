//! Replacing a running program by the program that is on disk now, without closing its listeners.
//!
//! The running program starts the new one with one end of a socket as its standard input. Over this
//! socket the new program receives descriptors and data, and reports that it serves. Until then the
//! running program serves; afterwards both hold the same listeners.

use std::env;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::process::{Child, Command};

use crate::workers::join::{CONTROL_VALUE, is_control};
use crate::workers::packet::{self, DESCRIPTORS_MAX, Wait};
use crate::workers::plan::STARTUP_DATA_BYTES_MAX;
use crate::workers::protocol::{MESSAGE_BYTES_MAX, STARTUP_DATA_PIECE_BYTES};

/// The environment variable that tells a program that it replaces a running one. Its value is
/// `stdin`.
pub const PREDECESSOR_VARIABLE: &str = "WATCHFIRE_PREDECESSOR";

/// The version of these messages. The two programs may be of different releases.
const PROTOCOL: u16 = 1;

/// Maximum descriptors of one hand-over.
const INHERITED_DESCRIPTORS_MAX: u32 = 65_536;

/// The pause before a retry while too many descriptors are in flight.
const CROWDED_PAUSE: Duration = Duration::from_millis(2);

/// Everything that a program leaves to its successor.
#[derive(Debug, Default)]
pub struct Inheritance {
    /// Bytes that this crate does not interpret, such as the addresses of the descriptors.
    pub data: Vec<u8>,
    /// Open descriptors, such as listeners.
    pub descriptors: Vec<OwnedFd>,
}

/// Why the running program was not replaced.
#[derive(Debug, Error)]
pub enum SuccessorError {
    #[error("cannot start {program}: {cause}")]
    Start { program: String, cause: io::Error },
    /// The new program ended before it was ready. Its log says why.
    #[error("the new program ended before it was ready: {status}; read its log")]
    Ended { status: ExitStatus },
    #[error("the new program was not ready within {within:?}")]
    NotReady { within: Duration },
    #[error("cannot hand over to the new program: {0}")]
    System(io::Error),
}

impl From<io::Error> for SuccessorError {
    fn from(cause: io::Error) -> Self {
        SuccessorError::System(cause)
    }
}

/// From the running program.
#[derive(Debug, Serialize, Deserialize)]
enum Message<'a> {
    /// The first message. Its fields must not change, so that another release reads the protocol.
    Begin {
        protocol: u16,
        data_bytes: u32,
        descriptors: u32,
    },
    Data(#[serde(borrow)] &'a [u8]),
    /// The message carries the next descriptors.
    Descriptors,
}

/// The message of the new program: it serves.
const READY: &[u8] = b"ready";

/// Starts `command` as the successor of this program, and waits until it is ready. Returns its
/// process id. After an error, no process is left.
///
/// Dropping the future kills the new program. Needs a tokio runtime with I/O and time.
pub async fn start_successor(
    command: std::process::Command,
    inheritance: Inheritance,
    within: Duration,
) -> Result<u32, SuccessorError> {
    let (ours, theirs) = packet::pair()?;
    rustix::io::ioctl_fionbio(&ours, true).map_err(io::Error::from)?;
    let socket = UnixDatagram::from_std(net::UnixDatagram::from(ours))?;
    let program = command.get_program().to_string_lossy().into_owned();
    let mut command = Command::from(command);
    // Its own process group: it must outlive this process, also in a terminal.
    command.stdin(Stdio::from(theirs)).env(PREDECESSOR_VARIABLE, CONTROL_VALUE).process_group(0);
    let child = command.spawn().map_err(|cause| SuccessorError::Start { program, cause })?;
    // The command holds the other end: while that is open, the socket does not end.
    drop(command);
    let mut starting = Starting { child: Some(child) };
    let exchange = async {
        // A failed write means that the program has ended, which `wait` reports.
        let sent = send(&socket, &inheritance).await;
        drop(inheritance);
        if sent.is_ok() && is_ready(&socket).await? {
            return Ok(true);
        }
        Ok::<_, io::Error>(false)
    };
    let is_ready = tokio::time::timeout(within, async {
        match exchange.await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => {
                let status = starting.child.as_mut().expect("it was started").wait().await?;
                Err(SuccessorError::Ended { status })
            }
        }
    });
    match is_ready.await {
        Ok(outcome) => outcome?,
        Err(_) => return Err(SuccessorError::NotReady { within }),
    }
    let mut child = starting.child.take().expect("it was started");
    let pid = child.id().unwrap_or(0);
    // This process reaps it if it ends first.
    tokio::spawn(async move { child.wait().await });
    Ok(pid)
}

/// A program that is not ready yet. It is killed when this is dropped.
struct Starting {
    child: Option<Child>,
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It fails only when the process has ended.
            let _ = child.start_kill();
        }
    }
}

async fn send(socket: &UnixDatagram, inheritance: &Inheritance) -> io::Result<()> {
    let Inheritance { data, descriptors } = inheritance;
    assert!(data.len() <= STARTUP_DATA_BYTES_MAX, "the data of a hand-over is too long");
    let begin = Message::Begin {
        protocol: PROTOCOL,
        data_bytes: data.len() as u32,
        descriptors: descriptors.len() as u32,
    };
    send_one(socket, &begin, &[]).await?;
    for piece in data.chunks(STARTUP_DATA_PIECE_BYTES) {
        send_one(socket, &Message::Data(piece), &[]).await?;
    }
    for some in descriptors.chunks(DESCRIPTORS_MAX) {
        send_one(socket, &Message::Descriptors, some).await?;
    }
    Ok(())
}

async fn send_one(
    socket: &UnixDatagram,
    message: &Message<'_>,
    descriptors: &[OwnedFd],
) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).expect("a message can be encoded");
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    loop {
        let attempt = || packet::send(socket, &[IoSlice::new(&bytes)], &descriptors);
        match socket.async_io(Interest::WRITABLE, attempt).await {
            Err(error) if packet::is_crowded(&error) => tokio::time::sleep(CROWDED_PAUSE).await,
            outcome => return outcome,
        }
    }
}

/// Waits for the report of the new program; false when it ends without one.
async fn is_ready(socket: &UnixDatagram) -> io::Result<bool> {
    let receive = || {
        let mut buffer = [0; 64];
        let packet = packet::recv(socket, &mut [IoSliceMut::new(&mut buffer)], Wait::No)?;
        Ok(buffer[..packet.len] == *READY)
    };
    socket.async_io(Interest::READABLE, receive).await
}

/// The running program that this one replaces.
#[derive(Debug)]
pub struct Predecessor {
    socket: OwnedFd,
}

impl Predecessor {
    /// Reports that this program serves. The predecessor then stops.
    ///
    /// # Errors
    ///
    /// The predecessor has ended. This program should serve without it.
    pub fn ready(self) -> io::Result<()> {
        packet::send(&self.socket, &[IoSlice::new(READY)], &[])
    }
}

/// Receives what a running program leaves to this one. `None` when no program started this one as
/// its successor.
///
/// Call it once, first of all, before there are threads: it replaces standard input. It blocks
/// until everything has arrived. Call [`Predecessor::ready`] as soon as the listeners are served.
pub fn join_predecessor() -> io::Result<Option<(Inheritance, Predecessor)>> {
    let Some(value) = env::var_os(PREDECESSOR_VARIABLE) else { return Ok(None) };
    let stdin = io::stdin();
    if value != CONTROL_VALUE || !is_control(&stdin) {
        return Err(invalid(&format!(
            "{PREDECESSOR_VARIABLE} is set, but standard input is not a server's socket; unset it"
        )));
    }
    let socket = stdin.as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    let inheritance = receive(&socket)?;
    Ok(Some((inheritance, Predecessor { socket })))
}

fn receive(socket: &OwnedFd) -> io::Result<Inheritance> {
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    let mut inheritance = Inheritance::default();
    let (mut data_bytes, mut descriptors) = (None, 0);
    loop {
        let Inheritance { data, descriptors: received } = &inheritance;
        if data_bytes == Some(data.len()) && received.len() == descriptors {
            return Ok(inheritance);
        }
        let packet = packet::recv(socket, &mut [IoSliceMut::new(&mut buffer)], Wait::Yes)?;
        if packet.is_end() {
            let what = "the server that this program replaces has ended";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        if packet.lost_descriptors {
            let what = "too many open files; raise the limit of open files";
            return Err(io::Error::other(what));
        }
        let message = postcard::from_bytes(&buffer[..packet.len])
            .map_err(|error| invalid(&format!("a message of the running server: {error}")))?;
        match message {
            Message::Begin { protocol, .. } if protocol != PROTOCOL => {
                return Err(invalid(&format!(
                    "the running server has hand-over version {protocol}, this program {PROTOCOL}; \
                     stop the server and start it again"
                )));
            }
            Message::Begin { data_bytes: bytes, descriptors: count, .. } => {
                if bytes as usize > STARTUP_DATA_BYTES_MAX || count > INHERITED_DESCRIPTORS_MAX {
                    return Err(invalid("the running server announces too much"));
                }
                (data_bytes, descriptors) = (Some(bytes as usize), count as usize);
            }
            Message::Data(piece) => inheritance.data.extend_from_slice(piece),
            Message::Descriptors => inheritance.descriptors.extend(packet.descriptors),
        }
        if data_bytes.is_none_or(|bytes| inheritance.data.len() > bytes)
            || inheritance.descriptors.len() > descriptors
        {
            return Err(invalid("the running server sent more than it announced"));
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
