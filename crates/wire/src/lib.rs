//! A network between processes of one machine. Each peer has a network namespace of its own, and one thread of this
//! process carries the IP packets between them. Each direction of a peer's link has a rate, a queue, a delay, jitter and
//! loss; paths between regions add delay, jitter and loss; and a peer may be behind each kind of NAT.
//!
//! ```no_run
//! use std::{process::Command, time::Duration};
//! use watchfire_wire::{Direction, Link, NatKind, PeerPlan, Wire, WirePlan};
//!
//! let direction = Direction {
//!     bits_per_second: Some(20_000_000),
//!     delay: Duration::from_millis(10),
//!     ..Direction::default()
//! };
//! let link = Link::symmetric(direction);
//! let home = PeerPlan { nat: NatKind::PortRestricted, ..PeerPlan::open("home", link) };
//! let peers = vec![PeerPlan::open("server", link), home];
//! let wire = Wire::start(WirePlan { seed: 1, peers, ..WirePlan::default() })?;
//!
//! let server = wire.peer("server")?.addresses().public[0];
//! let status = wire.peer("home")?.spawn(Command::new("ping").args(["-c1", &server.to_string()]))?.wait()?;
//! assert!(status.success());
//! println!("{:?}", wire.figures());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The same seed and the same packets at the same times give the same decisions. Real programs send at times that differ
//! from run to run, so two runs are alike, not equal; but of the packets on one direction of a link, the n-th is lost in
//! both runs or in none.
//!
//! **Without root.** [`Wire::start`] needs root, or [`enter_user_namespace`] at the start of the program, and access to
//! `/dev/net/tun`. Otherwise it returns [`StartError::Unsupported`], which says what is missing; a caller can go on with
//! plain loopback and print [`Unsupported::NOT_SIMULATED`].
//!
//! **Nothing is left.** The namespaces have no names, so they and their devices vanish with the process, even when it is
//! killed. `processes.rs` tells how the peers' programs end then.
//!
//! **Accuracy and cost**, measured on a virtual machine with two cores and Linux 6.18 that was busy with 10 to 20 other
//! threads. With *priority*, the measuring program ran before these (`chrt --fifo 10`):
//!
//! | measured | found |
//! |---|---|
//! | delay beyond the plan's at 0, 1, 10, 50 and 200 ms, median of 200 datagrams | 0.04, 0.09, 0.15, 0.19 and 0.19 ms |
//! | the same, 99 of 100 datagrams, with priority | at most 3 ms |
//! | rate of a TCP transfer at 1, 10 and 100 Mbit/s, over two seconds | within 0.05 % |
//! | the same at 1,000 Mbit/s, with priority | within 0.01 % |
//! | the same, while sender and receiver wait for processors | 450 Mbit/s and more |
//! | forwarding between two TCP sockets, without limits, MTU 1,500, with priority | 2.3 Gbit/s |
//! | its cost | 2.1 to 3.5 CPU-seconds per GB; 0.5 to 0.7 at an MTU of 9,000 |
//! | start and end of 100 peers | at most 1.8 s and 0.13 s; 0.3 s and 0.06 s with priority |
//!
//! The CPU time is that of the forwarding thread. It is nearly all the kernel's, and includes the receiver's TCP. As root,
//! the thread runs before the ordinary threads of the machine (`wire/forwarder.rs`). Otherwise packets come late while the
//! processors are busy, and a fast link may not reach its rate. The network tells so: [`Figures::lateness_max`] and
//! [`Wire::overruns`] belong beside every result.
//!
//! Absent on purpose: several hosts behind one home's NAT, packets that arrive out of order or damaged, routers that
//! decrement the TTL, multicast, and names (DNS).
//!
//! The modules import only those in the lines below their own:
//!
//! ```text
//! wire                   the driver: namespaces, programs in them, the thread that forwards
//! private                one namespace for all programs of a load, with a large table of connections
//! namespace, processes   one namespace with its device; the end of programs
//! network                the state machine: links and NATs
//! figures                counts
//! plan                   what a network is made of
//! ```

mod figures;
mod namespace;
mod network;
mod plan;
mod private;
mod processes;
mod wire;

pub use figures::{Count, DropCause, Figures, PairCount};
pub use network::{Delivery, Network};
pub use plan::{
    DELAY_MAX, Direction, Link, MTU_MIN, NatKind, NatLimits, PEERS_MAX, Path, PeerAddresses,
    PeerPlan, PlanError, WirePlan,
};
pub use private::PrivateNetwork;
pub use processes::remove_leftovers;
pub use wire::{Peer, StartError, Unsupported, Wire, enter_user_namespace};
