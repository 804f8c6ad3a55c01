//! The start of a worker: the data and descriptors that its supervisor sends.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};
use watchfire_types::NodeId;

use crate::workers::control::Control;
use crate::workers::handoff::HandoffSocket;
use crate::workers::packet::{self, Packet, Wait};
use crate::workers::protocol::{MESSAGE_BYTES_MAX, PROTOCOL, SupervisorMessage};

/// The environment variable that tells a worker its inherited descriptor. Its value is `stdin`.
pub const CONTROL_VARIABLE: &str = "WATCHFIRE_SUPERVISOR";
pub(crate) const CONTROL_VALUE: &str = "stdin";

#[derive(Debug)]
pub struct WorkerSetup {
    /// Its number among the workers, from 0.
    pub slot: NodeId,
    pub workers: u16,
    /// How often this slot's worker was restarted.
    pub restarts: u64,
    /// How often this slot's worker was killed because it did not respond.
    pub hangs: u64,
    /// How often to call [`Control::heartbeat`].
    pub heartbeat_period: Duration,
    /// The supervisor's [`Plan::startup_data`](crate::workers::Plan::startup_data).
    pub startup_data: Vec<u8>,
    /// The listeners of this slot, in the order of [`Plan::listeners`](crate::workers::Plan::listeners).
    pub listeners: Vec<OwnedFd>,
    /// A link to each running worker, by node. Later ones arrive as [`Order`](crate::workers::Order)s.
    pub links: Vec<Link>,
    pub control: Control,
}

/// A link between two workers.
#[derive(Debug)]
pub struct Link {
    /// The worker at the other end.
    pub to: NodeId,
    /// The socket of the bus, in nonblocking mode.
    pub bus: UnixStream,
    /// The socket for clients' connections.
    pub handoff: HandoffSocket,
}

impl Link {
    pub(crate) fn from_descriptors(to: u16, descriptors: Vec<OwnedFd>) -> Option<Link> {
        let [bus, handoff] = <[OwnedFd; 2]>::try_from(descriptors).ok()?;
        Some(Link { to: NodeId(to), bus: bus.into(), handoff: HandoffSocket::new(handoff) })
    }
}

/// Receives this worker's setup from its supervisor. `None` when no supervisor started the process.
///
/// Call it once, first of all, before there are threads: it replaces standard input. It blocks
/// until the setup has arrived, including a link to each running worker. Call [`Control::ready`]
/// as soon as the listeners are served.
///
/// Two errors only mean that the worker should exit: [`io::ErrorKind::ConnectionAborted`], for a
/// stop during the start, and [`io::ErrorKind::UnexpectedEof`], for the supervisor's end.
pub fn join_supervisor() -> io::Result<Option<WorkerSetup>> {
    let Some(value) = env::var_os(CONTROL_VARIABLE) else { return Ok(None) };
    let stdin = io::stdin();
    if value != CONTROL_VALUE || !is_control(&stdin) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{CONTROL_VARIABLE} is set, but standard input is not a supervisor's socket"),
        ));
    }
    let control = stdin.as_fd().try_clone_to_owned()?;
    // Code that reads standard input, here or in a child, must not reach the supervisor.
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    Startup::default().receive_all(control).map(Some)
}

pub(crate) fn is_control(descriptor: impl AsFd) -> bool {
    rustix::net::sockopt::socket_domain(&descriptor) == Ok(AddressFamily::UNIX)
        && rustix::net::sockopt::socket_type(&descriptor) == Ok(SocketType::SEQPACKET)
}

/// The setup that has arrived so far.
#[derive(Default)]
struct Startup {
    slot: u16,
    workers: u16,
    restarts: u64,
    hangs: u64,
    heartbeat_period: Duration,
    startup_data: Vec<u8>,
    startup_data_bytes: usize,
    listeners: Vec<OwnedFd>,
    listeners_expected: usize,
    /// The newest link by node.
    links: BTreeMap<u16, (u64, Link)>,
}

impl Startup {
    fn receive_all(mut self, control: OwnedFd) -> io::Result<WorkerSetup> {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        loop {
            let packet = packet::recv(&control, &mut [IoSliceMut::new(&mut buffer)], Wait::Yes)?;
            if packet.is_end() {
                let what = "the supervisor ended during the start of this worker";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
            }
            if packet.lost_descriptors {
                let what = "cannot receive descriptors from the supervisor: too many open files; \
                            raise the limit of open files";
                return Err(io::Error::other(what));
            }
            let message = postcard::from_bytes(&buffer[..packet.len])
                .map_err(|error| invalid(&format!("a message from the supervisor: {error}")))?;
            if matches!(message, SupervisorMessage::Begin) {
                break;
            }
            self.take(message, packet)?;
        }
        self.into_setup(control)
    }

    fn take(&mut self, message: SupervisorMessage<'_>, packet: Packet) -> io::Result<()> {
        match message {
            SupervisorMessage::Start {
                protocol,
                slot,
                workers,
                startup_data_bytes,
                listeners,
                restarts,
                hangs,
                heartbeat_period,
            } => {
                if protocol != PROTOCOL {
                    return Err(invalid(&format!(
                        "the supervisor has protocol version {protocol}, this program {PROTOCOL}: \
                         the program was replaced; restart the supervisor"
                    )));
                }
                (self.slot, self.workers) = (slot, workers);
                (self.restarts, self.hangs) = (restarts, hangs);
                self.heartbeat_period = heartbeat_period;
                self.startup_data_bytes = startup_data_bytes as usize;
                self.listeners_expected = listeners as usize;
            }
            SupervisorMessage::StartupData(piece) => self.startup_data.extend_from_slice(piece),
            SupervisorMessage::Listeners => self.listeners.extend(packet.descriptors),
            SupervisorMessage::Link { to, number } => {
                let link = Link::from_descriptors(to, packet.descriptors)
                    .ok_or_else(|| invalid("a link without its two descriptors"))?;
                self.links.insert(to, (number, link));
            }
            SupervisorMessage::Drain => {
                let what = "the supervisor was stopped during the start of this worker";
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, what));
            }
            // Sent only after the begin.
            SupervisorMessage::Begin | SupervisorMessage::Unresponsive(_) => {}
        }
        Ok(())
    }

    fn into_setup(self, control: OwnedFd) -> io::Result<WorkerSetup> {
        if self.startup_data.len() != self.startup_data_bytes
            || self.listeners.len() != self.listeners_expected
        {
            return Err(invalid("the supervisor sent less than it announced"));
        }
        let numbers = self.links.iter().map(|(&to, &(number, _))| (to, number)).collect();
        Ok(WorkerSetup {
            slot: NodeId(self.slot),
            workers: self.workers,
            restarts: self.restarts,
            hangs: self.hangs,
            heartbeat_period: self.heartbeat_period,
            startup_data: self.startup_data,
            listeners: self.listeners,
            links: self.links.into_values().map(|(_, link)| link).collect(),
            control: Control::new(control, numbers),
        })
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
