//! Network namespaces, the device in each, and threads that enter them.
//!
//! A namespace belongs to a thread, not to the whole process: a thread that has entered one opens sockets there, and the
//! programs that it starts are born there. So no `unsafe` code between `fork` and `exec` is needed: a short-lived thread
//! enters the namespace, does its work and ends. The rest of the process stays where it is.
//!
//! The namespaces have no names. Each exists while a process is in it or a descriptor holds it, so when this process ends,
//! in whatever way, the kernel removes those without programs, and their devices with them.

use crate::plan::PeerAddresses;
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST};
use netlink_packet_core::{NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteHeader, RouteMessage};
use netlink_packet_route::route::{RouteProtocol, RouteScope, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::sched::CloneFlags;
use rustix::net::{AddressFamily as Domain, RecvFlags, SendFlags, SocketType};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::thread;
use tun_rs::{DeviceBuilder, SyncDevice};

/// The device of a peer. Each namespace has one of this name.
pub(crate) const DEVICE: &str = "wire0";
/// Packets that the kernel keeps in front of a device that the forwarder has not read yet.
const DEVICE_QUEUE_PACKETS: u32 = 10_000;
/// The first interface of each namespace.
const LOOPBACK_INDEX: u32 = 1;

pub(crate) struct Namespace {
    descriptor: File,
}

/// The step that failed, with its cause.
pub(crate) struct OpenError {
    pub step: Step,
    pub cause: io::Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Namespace,
    Device,
    Addresses,
}

impl Namespace {
    /// A new namespace with a device that has these addresses.
    pub fn open(addresses: &PeerAddresses, mtu: u16) -> Result<(Self, SyncDevice), OpenError> {
        let open = || {
            let fail = |step| move |cause: io::Error| OpenError { step, cause };
            enter_new().map_err(fail(Step::Namespace))?;
            let descriptor = File::open("/proc/thread-self/ns/net");
            let descriptor = descriptor.map_err(fail(Step::Namespace))?;
            let device = open_device(mtu).map_err(fail(Step::Device))?;
            configure(addresses).map_err(fail(Step::Addresses))?;
            Ok((Namespace { descriptor }, device))
        };
        in_thread(open)
    }

    /// A new namespace with the loopback interface alone.
    pub fn open_alone() -> Result<Self, OpenError> {
        let open = || {
            let fail = |step| move |cause: io::Error| OpenError { step, cause };
            enter_new().map_err(fail(Step::Namespace))?;
            let descriptor = File::open("/proc/thread-self/ns/net");
            let descriptor = descriptor.map_err(fail(Step::Namespace))?;
            let kernel = Netlink::connect().map_err(fail(Step::Device))?;
            let start = RouteNetlinkMessage::SetLink(up(LOOPBACK_INDEX));
            kernel.request(start, 0).map_err(fail(Step::Device))?;
            Ok(Namespace { descriptor })
        };
        in_thread(open)
    }

    /// Runs `work` in a thread that has entered this namespace, and waits for it.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        in_thread(|| {
            nix::sched::setns(&self.descriptor, CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        })
    }

    /// Packets that the kernel has dropped in front of the device, because they were not read in time.
    pub fn overruns(&self) -> io::Result<u64> {
        // Which namespace this file shows depends on the thread that opens it.
        let devices = self.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))??;
        let mut lines = devices.lines().filter_map(|line| line.trim_start().split_once(':'));
        let counts = lines.find(|(name, _)| *name == DEVICE).map(|(_, counts)| counts);
        // Eight columns for packets to the peer, then bytes, packets, errors and drops of those from it.
        let drops = counts.and_then(|counts| counts.split_whitespace().nth(11)?.parse().ok());
        drops.ok_or_else(|| io::Error::other(format!("{DEVICE} is not in /proc/net/dev")))
    }

    /// The namespace's name in `/proc`, such as `net:[4026532345]`.
    pub fn name(&self) -> io::Result<String> {
        Ok(format!("net:[{}]", self.descriptor.metadata()?.ino()))
    }
}

fn in_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let ended = thread::scope(|scope| scope.spawn(work).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Moves the calling thread to a new network namespace.
pub(crate) fn enter_new() -> io::Result<()> {
    Ok(nix::sched::unshare(CloneFlags::CLONE_NEWNET)?)
}

fn open_device(mtu: u16) -> io::Result<SyncDevice> {
    let device = DeviceBuilder::new().name(DEVICE).mtu(mtu).build_sync()?;
    // Otherwise closing the descriptor removes the device and waits 30 ms for it: three seconds for 100 peers. So the
    // kernel removes all devices together, with their namespaces.
    device.persist()?;
    device.set_nonblocking(true)?;
    Ok(device)
}

/// Gives the device its addresses and all routes, and starts the loopback interface.
fn configure(addresses: &PeerAddresses) -> io::Result<()> {
    let kernel = Netlink::connect()?;
    let device = rustix::net::netdevice::name_to_index(&kernel.socket, DEVICE)?;
    kernel.request(RouteNetlinkMessage::SetLink(up(LOOPBACK_INDEX)), 0)?;
    // The older interface for this, an ioctl, demands a root of the whole machine.
    let mut longer = up(device);
    longer.attributes.push(LinkAttribute::TxQueueLen(DEVICE_QUEUE_PACKETS));
    kernel.request(RouteNetlinkMessage::SetLink(longer), 0)?;
    for address in &addresses.own {
        let create = NLM_F_CREATE | NLM_F_EXCL;
        kernel.request(RouteNetlinkMessage::NewAddress(new_address(device, *address)), create)?;
        kernel.request(RouteNetlinkMessage::NewRoute(default_route(device, *address)), create)?;
    }
    Ok(())
}

fn up(index: u32) -> LinkMessage {
    let mut link = LinkMessage::default();
    link.header.index = index;
    (link.header.flags, link.header.change_mask) = (LinkFlags::Up, LinkFlags::Up);
    link
}

fn new_address(device: u32, address: IpAddr) -> AddressMessage {
    let mut message = AddressMessage::default();
    (message.header.family, message.header.prefix_len) = family(address);
    message.header.index = device;
    // Nobody else can have the address, so the kernel need not wait a second to find out.
    message.header.flags = AddressHeaderFlags::Nodad;
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    message
}

/// All packets of the address's version go to the device.
fn default_route(device: u32, address: IpAddr) -> RouteMessage {
    const MAIN_TABLE: u8 = 254;
    let mut route = RouteMessage::default();
    route.header = RouteHeader {
        address_family: family(address).0,
        table: MAIN_TABLE,
        protocol: RouteProtocol::Static,
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    route.attributes = vec![RouteAttribute::Oif(device)];
    route
}

/// The version, and the bits of a whole address.
fn family(address: IpAddr) -> (AddressFamily, u8) {
    match address {
        IpAddr::V4(_) => (AddressFamily::Inet, 32),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128),
    }
}

/// A conversation with the kernel about the interfaces of the calling thread's namespace.
struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    fn connect() -> io::Result<Self> {
        // Protocol 0 of netlink is NETLINK_ROUTE.
        let socket = rustix::net::socket(Domain::NETLINK, SocketType::RAW, None)?;
        Ok(Netlink { socket })
    }

    fn request(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        rustix::net::send(&self.socket, &bytes, SendFlags::empty())?;

        let mut answer = vec![0; 4_096];
        let (len, _) = rustix::net::recv(self.socket.as_fd(), &mut answer[..], RecvFlags::empty())?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer[..len]);
        match answer.map_err(io::Error::other)?.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
            _ => Ok(()),
        }
    }
}
