//! A worker's first minute: what it gets from its supervisor.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{AddressFamily, SocketType};
use vocab::NodeId;

use crate::control::Control;
use crate::hand_over::HandOver;
use crate::packet::{self, Packet, Wait};
use crate::words::{MESSAGE_BYTES_MAX, PROTOCOL, Word};

/// Names the inherited descriptor to a worker. Its one value is `stdin`.
pub const CONTROL_VARIABLE: &str = "WATCHFIRE_SUPERVISOR";
pub(crate) const CONTROL_VALUE: &str = "stdin";

/// All that a worker gets at its start.
#[derive(Debug)]
pub struct Enlisted {
    /// Its place among the workers, from 0.
    pub slot: NodeId,
    /// How many places there are.
    pub workers: u16,
    /// What the supervisor has to say, as it was given to [`Plan::hello`](crate::Plan::hello).
    pub hello: Vec<u8>,
    /// The listeners of this place, in the order of [`Plan::listeners`](crate::Plan::listeners).
    pub listeners: Vec<OwnedFd>,
    /// A link to each worker that lives, by rising node. Others come as [`Order`](crate::Order)s.
    pub links: Vec<Link>,
    /// How it goes on.
    pub control: Control,
}

/// What joins two workers.
#[derive(Debug)]
pub struct Link {
    /// Who is at the other end.
    pub to: NodeId,
    /// For the bus. It is in nonblocking mode.
    pub bus: UnixStream,
    /// For clients' connections.
    pub hand_over: HandOver,
}

impl Link {
    pub(crate) fn from_descriptors(to: u16, descriptors: Vec<OwnedFd>) -> Option<Link> {
        let [bus, hand_over] = <[OwnedFd; 2]>::try_from(descriptors).ok()?;
        Some(Link { to: NodeId(to), bus: bus.into(), hand_over: HandOver::new(hand_over) })
    }
}

/// Learns from the supervisor who this process is. `None`: no supervisor started it.
///
/// Call it first, before there are threads, and once: it takes the place of standard input.
/// It waits until everything has arrived, which includes a link to each worker that lives. Then
/// tell [`Control::ready`] as soon as the listeners are served.
///
/// Two errors only mean that there is nothing to do any more: [`io::ErrorKind::ConnectionAborted`],
/// a stop that came during the start, and [`io::ErrorKind::UnexpectedEof`], the supervisor's end.
pub fn enlist() -> io::Result<Option<Enlisted>> {
    let Some(value) = env::var_os(CONTROL_VARIABLE) else { return Ok(None) };
    let stdin = io::stdin();
    if value != CONTROL_VALUE || !is_control(&stdin) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{CONTROL_VARIABLE} is set, but standard input does not lead to a supervisor"),
        ));
    }
    let control = stdin.as_fd().try_clone_to_owned()?;
    // Nobody who reads standard input, here or in a child, shall meet the supervisor.
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    Muster::default().gather(control).map(Some)
}

fn is_control(descriptor: impl AsFd) -> bool {
    rustix::net::sockopt::socket_domain(&descriptor) == Ok(AddressFamily::UNIX)
        && rustix::net::sockopt::socket_type(&descriptor) == Ok(SocketType::SEQPACKET)
}

/// What has arrived so far.
#[derive(Default)]
struct Muster {
    slot: u16,
    workers: u16,
    hello: Vec<u8>,
    hello_bytes: usize,
    listeners: Vec<OwnedFd>,
    listeners_due: usize,
    /// By node, the newest.
    links: BTreeMap<u16, (u64, Link)>,
}

impl Muster {
    fn gather(mut self, control: OwnedFd) -> io::Result<Enlisted> {
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
            let word = postcard::from_bytes(&buffer[..packet.len])
                .map_err(|error| bad(&format!("a message from the supervisor: {error}")))?;
            if matches!(word, Word::Begin) {
                break;
            }
            self.take(word, packet)?;
        }
        self.enlisted(control)
    }

    fn take(&mut self, word: Word<'_>, packet: Packet) -> io::Result<()> {
        match word {
            Word::Muster { protocol, slot, workers, hello_bytes, listeners } => {
                if protocol != PROTOCOL {
                    return Err(bad(&format!(
                        "the supervisor speaks version {protocol} and this program {PROTOCOL}: \
                         it was replaced, and the supervisor must be restarted"
                    )));
                }
                (self.slot, self.workers) = (slot, workers);
                self.hello_bytes = hello_bytes as usize;
                self.listeners_due = listeners as usize;
            }
            Word::Hello(piece) => self.hello.extend_from_slice(piece),
            Word::Listeners => self.listeners.extend(packet.descriptors),
            Word::Link { to, number } => {
                let link = Link::from_descriptors(to, packet.descriptors)
                    .ok_or_else(|| bad("a link without its two descriptors"))?;
                self.links.insert(to, (number, link));
            }
            Word::Drain => {
                let what = "the supervisor stops while this worker starts";
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, what));
            }
            Word::Begin => {}
        }
        Ok(())
    }

    fn enlisted(self, control: OwnedFd) -> io::Result<Enlisted> {
        if self.hello.len() != self.hello_bytes || self.listeners.len() != self.listeners_due {
            return Err(bad("the supervisor promised more than it sent"));
        }
        let numbers = self.links.iter().map(|(&to, &(number, _))| (to, number)).collect();
        Ok(Enlisted {
            slot: NodeId(self.slot),
            workers: self.workers,
            hello: self.hello,
            listeners: self.listeners,
            links: self.links.into_values().map(|(_, link)| link).collect(),
            control: Control::new(control, numbers),
        })
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
