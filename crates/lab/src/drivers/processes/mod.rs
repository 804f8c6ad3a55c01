//! The drivers on real processes: each node is a program of its own.
//!
//! On this machine, each node is in a network namespace of its own when the trial has links, paths or kinds of NAT, and
//! a wire connects them (`host/wire.rs`). Otherwise each has an address of the loopback device, and content moves as
//! fast as this machine can.
//!
//! A run has four steps: objects are written, nodes with content start and say how others request it,
//! nodes that fetch are prepared, and the clock starts. Nothing before that counts, neither time nor CPU.
//! A node that fails is a result: its error is in it, and the others go on.
//!
//! Its modules import only those in the lines below their own:
//!
//! ```text
//! ssh                the nodes are on other hosts
//! local, standing    they are on this machine, for one run or until a command ends them
//! run                one run, from its objects to its result: the clock and the users of a load
//! nodes              the nodes of a run, and what each does when
//! program            the programs that nodes run, each behind the same contract
//! host               where a process runs: namespaces, the wire, other hosts, processors
//! ```

mod host;
mod local;
mod nodes;
mod program;
mod run;
mod ssh;
mod standing;

pub use host::{MARK as LAB_MARK, Workspace};
pub use local::Processes;
pub use ssh::Ssh;
pub use standing::{Standing, StandingError, StandingNode};
