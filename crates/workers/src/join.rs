//! The start of a worker: the data and descriptors that its supervisor sends.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{AddressFamily, SocketType};
use watchfire_types::NodeId;

use crate::control::Control;
use crate::handoff::HandoffSocket;
use crate::packet::{self, Packet, Wait};
use crate::protocol::{MESSAGE_BYTES_MAX, PROTOCOL, SupervisorMessage};

/// Names the inherited descriptor to a worker. Its one value is `stdin`.
pub const CONTROL_VARIABLE: &str = "WATCHFIRE_SUPERVISOR";
pub(crate) const CONTROL_VALUE: &str = "stdin";

/// The setup of a worker.
#[derive(Debug)]
pub struct WorkerSetup {
    /// Its place among the workers, from 0.
    pub slot: NodeId,
    /// How many places there are.
    pub workers: u16,
    /// The supervisor's [`Plan::startup_data`](crate::Plan::startup_data).
    pub startup_data: Vec<u8>,
    /// The listeners of this place, in the order of [`Plan::listeners`](crate::Plan::listeners).
    pub listeners: Vec<OwnedFd>,
    /// A link to each worker that lives, by rising node. Others come as [`Order`](crate::Order)s.
    pub links: Vec<Link>,
    /// How it goes on.
    pub control: Control,
}

/// A link between two workers.
#[derive(Debug)]
pub struct Link {
    /// The worker at the other end.
    pub to: NodeId,
    /// For the bus. It is in nonblocking mode.
    pub bus: UnixStream,
    /// For clients' connections.
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
/// Call it first, before there are threads, and once: it takes the place of standard input.
/// It waits until everything has arrived, which includes a link to each worker that lives. Then
/// call [`Control::ready`] as soon as the listeners are served.
///
/// Two errors only mean that there is nothing to do any more: [`io::ErrorKind::ConnectionAborted`],
/// a stop that came during the start, and [`io::ErrorKind::UnexpectedEof`], the supervisor's end.
pub fn join_supervisor() -> io::Result<Option<WorkerSetup>> {
    let Some(value) = env::var_os(CONTROL_VARIABLE) else { return Ok(None) };
    let stdin = io::stdin();
    if value != CONTROL_VALUE || !is_control(&stdin) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{CONTROL_VARIABLE} is set, but standard input does not lead to a supervisor"),
        ));
    }
    let control = stdin.as_fd().try_clone_to_owned()?;
    // Code that reads standard input, here or in a child, must not reach the supervisor.
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    Startup::default().gather(control).map(Some)
}

fn is_control(descriptor: impl AsFd) -> bool {
    rustix::net::sockopt::socket_domain(&descriptor) == Ok(AddressFamily::UNIX)
        && rustix::net::sockopt::socket_type(&descriptor) == Ok(SocketType::SEQPACKET)
}

/// The setup that has arrived so far.
#[derive(Default)]
struct Startup {
    slot: u16,
    workers: u16,
    startup_data: Vec<u8>,
    startup_data_bytes: usize,
    listeners: Vec<OwnedFd>,
    listeners_due: usize,
    /// By node, the newest.
    links: BTreeMap<u16, (u64, Link)>,
}

impl Startup {
    fn gather(mut self, control: OwnedFd) -> io::Result<WorkerSetup> {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        loop {
            let packet = packet::recv(&control, &mut [IoSliceMut::new(&mut buffer)], Wait::Yes)?;
            if packet.is_end() {
                let what = "the supervisor ended while this worker started";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
            }
            if packet.lost_descriptors {
                let what = "no room for the descriptors that the supervisor sends: \
                            raise the limit of open files";
                return Err(io::Error::other(what));
            }
            let message = postcard::from_bytes(&buffer[..packet.len])
                .map_err(|error| bad(&format!("a message from the supervisor: {error}")))?;
            if matches!(message, SupervisorMessage::Begin) {
                break;
            }
            self.take(message, packet)?;
        }
        self.into_setup(control)
    }

    fn take(&mut self, message: SupervisorMessage<'_>, packet: Packet) -> io::Result<()> {
        match message {
            SupervisorMessage::Start { protocol, slot, workers, startup_data_bytes, listeners } => {
                if protocol != PROTOCOL {
                    return Err(bad(&format!(
                        "the supervisor speaks version {protocol} and this program {PROTOCOL}: \
                         it was replaced, and the supervisor must be restarted"
                    )));
                }
                (self.slot, self.workers) = (slot, workers);
                self.startup_data_bytes = startup_data_bytes as usize;
                self.listeners_due = listeners as usize;
            }
            SupervisorMessage::StartupData(piece) => self.startup_data.extend_from_slice(piece),
            SupervisorMessage::Listeners => self.listeners.extend(packet.descriptors),
            SupervisorMessage::Link { to, number } => {
                let link = Link::from_descriptors(to, packet.descriptors)
                    .ok_or_else(|| bad("a link without its two descriptors"))?;
                self.links.insert(to, (number, link));
            }
            SupervisorMessage::Drain => {
                let what = "the supervisor stops while this worker starts";
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, what));
            }
            SupervisorMessage::Begin => {}
        }
        Ok(())
    }

    fn into_setup(self, control: OwnedFd) -> io::Result<WorkerSetup> {
        if self.startup_data.len() != self.startup_data_bytes
            || self.listeners.len() != self.listeners_due
        {
            return Err(bad("the supervisor promised more than it sent"));
        }
        let numbers = self.links.iter().map(|(&to, &(number, _))| (to, number)).collect();
        Ok(WorkerSetup {
            slot: NodeId(self.slot),
            workers: self.workers,
            startup_data: self.startup_data,
            listeners: self.listeners,
            links: self.links.into_values().map(|(_, link)| link).collect(),
            control: Control::new(control, numbers),
        })
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
