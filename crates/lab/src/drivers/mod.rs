//! Drivers run a trial, each in its own world, and measure the same figures.
//!
//! Its modules import only those in the lines below their own:
//!
//! ```text
//! traced, other_program   the simulator with a trace of each event; the simulator of another program
//! simulated, processes    every node in one simulation; a real program for each node
//! driver                  the contract of all
//! ```

mod driver;
mod other_program;
mod processes;
mod simulated;
mod traced;

pub use driver::{Driver, DriverError, NodeProgress, NodeState, Progress, with_causes};
pub use other_program::SimulatedBy;
pub use processes::{LAB_MARK, Processes, Ssh, Standing, StandingError, StandingNode, Workspace};
pub use simulated::Simulated;
pub use traced::Traced;
