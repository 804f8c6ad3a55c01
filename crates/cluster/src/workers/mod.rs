//! Several processes behind one port: a supervisor, its workers, and the links between them.
//!
//! A *supervisor* ([`supervise`]) starts *workers*, the same program again, and restarts those that
//! end. Each worker has a *slot*. It receives its listeners, *startup data* that this crate does
//! not interpret, and a [`Link`] to each other worker: one socket for messages, and one for handing
//! over clients' connections ([`HandoffSocket`]). A worker gets this setup from
//! [`join_supervisor`], and then follows the [`Order`]s of its [`Control`].
//!
//! A ready worker sends heartbeats ([`Control::heartbeat`]). One that is stopped or deadlocked sends
//! none: the other workers receive [`Order::Unresponsive`], and the supervisor then kills and
//! restarts it. Only this needs a timeout: a process notices the end of another by the end of a socket. A dead worker's
//! links end immediately, and when the supervisor dies, its workers drain. The supervisor serves no
//! clients, and its memory does not grow: it sends each descriptor and closes it, except listeners.
//!
//! A worker has its own process group, so that a terminal's ^C reaches only the supervisor. Service
//! managers signal all processes together. A worker that then ends before the supervisor's stop is
//! restarted.
//!
//! ```no_run
//! use std::process::Command;
//! use watchfire_cluster::workers::{Order, Plan, SupervisorLimits};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! if let Some(worker) = watchfire_cluster::workers::join_supervisor()? {
//!     // Serve worker.listeners, then:
//!     worker.control.ready()?;
//!     loop {
//!         match worker.control.next_order().await {
//!             Order::Link(link) => println!("a new link to {}", link.to),
//!             Order::Unresponsive(nodes) => println!("send no clients to {nodes:?}"),
//!             Order::Drain => return Ok(()),
//!         }
//!     }
//! }
//! let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
//! let plan = Plan {
//!     workers: 1,
//!     listeners: vec![vec![listener.into()]],
//!     startup_data: b"settings".to_vec(),
//!     command: Box::new(|_| Command::new("/proc/self/exe")),
//!     events: Box::new(|event| println!("{event}")),
//!     links: None,
//!     limits: SupervisorLimits::default(),
//! };
//! let stop = async { tokio::signal::ctrl_c().await };
//! watchfire_cluster::workers::supervise(plan, stop, std::future::pending::<()>()).await?;
//! # Ok(())
//! # }
//! ```

mod control;
mod handoff;
mod join;
mod message_socket;
mod packet;
mod plan;
mod protocol;
mod successor;
mod supervise;
mod supervisor;
mod worker;

pub use control::{Control, Order};
pub use handoff::{HANDOFF_BYTES_MAX, HandoffCounts, HandoffSocket};
pub use join::{CONTROL_VARIABLE, Link, WorkerSetup, join_supervisor};
pub use plan::{
    Ended, Plan, STARTUP_DATA_BYTES_MAX, SUPERVISOR, SuperviseError, SupervisorEvent,
    SupervisorLimits, SupervisorLinks, WORKERS_MAX,
};
pub use successor::{
    Inheritance, PREDECESSOR_VARIABLE, Predecessor, SuccessorError, join_predecessor,
    start_successor,
};
pub use supervise::supervise;
