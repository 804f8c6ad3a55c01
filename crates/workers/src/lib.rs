//! Several processes behind one port: who starts them, and what they share.
//!
//! A *supervisor* ([`supervise`]) starts *workers*, the same program again, and keeps them running.
//! Each has a *slot* and gets its listeners, a *hello* that this crate does not look into, and a
//! [`Link`] to each other worker: one socket for messages, and one over which they hand each other
//! clients' connections ([`HandOver`]). A worker learns all that from [`enlist`] and goes on by the
//! [`Order`]s of its [`Control`].
//!
//! Who is gone is seen by a socket's end, never by a timeout: a dead worker's links end at once,
//! and when the supervisor dies its workers drain. The supervisor serves nobody, and what it holds
//! does not grow: it sends each descriptor and closes it, all but the listeners.
//!
//! A worker runs in a process group of its own, so that a terminal's ^C reaches the supervisor
//! alone. Who signals all processes at once, as service managers do, finds workers that decide for
//! themselves; a worker that ends before the supervisor's stop is started again.
//!
//! ```no_run
//! use std::process::Command;
//! use workers::{Order, Plan, SupervisorLimits};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! if let Some(worker) = workers::enlist()? {
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
//!     hello: b"settings".to_vec(),
//!     command: Box::new(|_| Command::new("/proc/self/exe")),
//!     events: Box::new(|event| println!("{event}")),
//!     limits: SupervisorLimits::default(),
//! };
//! let stop = async { tokio::signal::ctrl_c().await };
//! workers::supervise(plan, stop, std::future::pending::<()>()).await?;
//! # Ok(())
//! # }
//! ```

mod control;
mod crew;
mod enlist;
mod hand_over;
mod messages;
mod packet;
mod plan;
mod supervise;
mod tend;
mod words;

pub use control::{Control, Order};
pub use enlist::{CONTROL_VARIABLE, Enlisted, Link, enlist};
pub use hand_over::{HANDED_BYTES_MAX, HandOver, HandOverCounts};
pub use plan::{
    Ended, HELLO_BYTES_MAX, Plan, SuperviseError, SupervisorEvent, SupervisorLimits, WORKERS_MAX,
};
pub use supervise::supervise;
