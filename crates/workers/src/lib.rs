//! Several processes behind one port: who starts them, and what they share.

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
