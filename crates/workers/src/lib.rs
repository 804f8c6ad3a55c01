//! Several processes behind one port: a supervisor, its workers, and the links between them.
//!
//! A *supervisor* ([`supervise`]) starts *workers*, the same program again, and keeps them running.
//! Each has a *slot* and gets its listeners, a *startup_data* that this crate does not look into, and a
//! [`Link`] to each other worker: one socket for messages, and one over which they hand each other
//! clients' connections ([`HandoffSocket`]). A worker learns all that from [`join_supervisor`] and goes on by the
//! [`Order`]s of its [`Control`].
//!
//! A process notices that another is gone by a socket's end, never by a timeout: a dead worker's links end at once,
//! and when the supervisor dies its workers drain. The supervisor serves nobody, and what it holds
//! does not grow: it sends each descriptor and closes it, all but the listeners.
//!
//! A worker runs in a process group of its own, so that a terminal's ^C reaches the supervisor
//! alone. Service managers signal all processes at once; then the workers decide for
//! themselves; a worker that ends before the supervisor's stop is started again.
//!
//! ```no_run
//! use std::process::Command;
//! use watchfire_workers::{Order, Plan, SupervisorLimits};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! if let Some(worker) = watchfire_workers::join_supervisor()? {
//!     // Serve worker.listeners, then:
//!     worker.control.ready()?;
//!     loop {
//!         match worker.control.next_order().await {
//!             Order::Link(link) => println!("a new link to {}", link.to),
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
//!     limits: SupervisorLimits::default(),
//! };
//! let stop = async { tokio::signal::ctrl_c().await };
//! watchfire_workers::supervise(plan, stop, std::future::pending::<()>()).await?;
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
mod supervise;
mod supervisor;
mod worker;

pub use control::{Control, Order};
pub use handoff::{HANDOFF_BYTES_MAX, HandoffCounts, HandoffSocket};
pub use join::{CONTROL_VARIABLE, Link, WorkerSetup, join_supervisor};
pub use plan::{
    Ended, Plan, STARTUP_DATA_BYTES_MAX, SuperviseError, SupervisorEvent, SupervisorLimits,
    WORKERS_MAX,
};
pub use supervise::supervise;
