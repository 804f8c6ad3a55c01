//! The thread that moves packets between the devices and the network.
//!
//! It waits for devices with packets and for the time of the next delivery, whichever comes first, in one `epoll_pwait2`
//! with nanoseconds. A packet costs two system calls: one that reads it and one that writes it. The write takes the
//! packet up the receiver's TCP or UDP, so this work of the kernel is in this thread's CPU time, too.
//!
//! The kernel rounds a sleep up by the thread's timer slack, 50 microseconds by default. This thread sets it to 1 ns.
//!
//! The peers' own programs compete for the processors. An ordinary thread then waits for its turn for several
//! milliseconds, at any nice value, and each packet would come that much later than planned. So this thread asks for the
//! real-time scheduler's lowest priority, which is before all ordinary threads. The kernel still leaves them a twentieth
//! of each processor.

use super::{lock, thread_cpu_time};
use crate::network::Network;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::time::Timespec;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tun_rs::SyncDevice;
use watchfire_types::Instant;

/// Packets that are read from one device before the next one has its turn.
const PACKETS_PER_TURN: usize = 64;
/// Largest IP packet.
const PACKET_BYTES_MAX: usize = 65_535;
/// The event that ends the thread.
const STOP: u64 = u64::MAX;
/// Passes between two publications of the CPU time.
const PASSES_PER_PUBLICATION: u32 = 64;

pub(super) struct Forwarder {
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
    cpu_nanos: Arc<AtomicU64>,
}

impl Forwarder {
    pub fn start(network: Arc<Mutex<Network>>, devices: Vec<SyncDevice>) -> io::Result<Self> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
        for (index, device) in devices.iter().enumerate() {
            epoll::add(&epoll, device, EventData::new_u64(index as u64), EventFlags::IN)?;
        }
        let cpu_nanos = Arc::new(AtomicU64::new(0));
        let started = std::time::Instant::now();
        let mut forwarding =
            Forwarding { network, devices, epoll, started, cpu_nanos: cpu_nanos.clone() };
        let builder = std::thread::Builder::new().name("wire".into());
        let thread = Some(builder.spawn(move || forwarding.run())?);
        Ok(Forwarder { stop, thread, cpu_nanos })
    }

    /// CPU time of the thread, some milliseconds old.
    pub fn cpu_time(&self) -> Duration {
        Duration::from_nanos(self.cpu_nanos.load(Ordering::Relaxed))
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        let _ = rustix::io::write(self.stop.as_fd(), &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Forwarding {
    network: Arc<Mutex<Network>>,
    devices: Vec<SyncDevice>,
    epoll: OwnedFd,
    started: std::time::Instant,
    cpu_nanos: Arc<AtomicU64>,
}

impl Forwarding {
    fn run(&mut self) {
        run_before_others();
        let mut events = Vec::with_capacity(self.devices.len() + 1);
        let mut packet = vec![0; PACKET_BYTES_MAX];
        let mut next_wake = None;
        for pass in 0_u32.. {
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                self.timeout(next_wake).as_ref(),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // The descriptor is ours and open, so no other error is possible.
                Err(error) => panic!("cannot wait for devices: {error}"),
            }
            if events.iter().any(|event: &Event| event.data.u64() == STOP) {
                return;
            }
            let network = self.network.clone();
            let mut network = lock(&network);
            for event in &events {
                self.read(&mut network, event.data.u64() as usize, &mut packet);
                // A hundred busy devices must not delay what is due.
                self.deliver(&mut network);
            }
            self.deliver(&mut network);
            next_wake = network.next_wake();
            drop(network);
            if pass % PASSES_PER_PUBLICATION == 0 || next_wake.is_none() {
                let nanos = u64::try_from(thread_cpu_time().as_nanos()).unwrap_or(u64::MAX);
                self.cpu_nanos.store(nanos, Ordering::Relaxed);
            }
        }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.started.elapsed()
    }

    fn timeout(&self, next_wake: Option<Instant>) -> Option<Timespec> {
        let wait = next_wake?.since(self.now());
        let seconds = i64::try_from(wait.as_secs()).unwrap_or(i64::MAX);
        Some(Timespec { tv_sec: seconds, tv_nsec: wait.subsec_nanos().into() })
    }

    /// Takes packets from a device until it has none, or until its turn is over.
    fn read(&self, network: &mut Network, from: usize, buffer: &mut [u8]) {
        for _ in 0..PACKETS_PER_TURN {
            // Errors: it has no packet, or its namespace is being removed.
            let Ok(len) = self.devices[from].recv(buffer) else { return };
            network.handle_packet(self.now(), from, buffer[..len].to_vec());
        }
    }

    fn deliver(&self, network: &mut Network) {
        while let Some(delivery) = network.poll_delivery(self.now()) {
            // The kernel refuses a packet when the device is down: a peer's own program can set it so.
            let _ = self.devices[delivery.to].send(&delivery.packet);
        }
    }
}

/// Sets the calling thread before the machine's ordinary threads. Only the accuracy suffers when the kernel refuses, as it
/// does without root.
fn run_before_others() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut chrt = Command::new("chrt");
    chrt.args(["--fifo", "--pid", "1", &thread]).stdin(Stdio::null()).stdout(Stdio::null());
    let _ = chrt.stderr(Stdio::null()).status();
}
