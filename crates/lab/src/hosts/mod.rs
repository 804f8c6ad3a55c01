//! Other machines, over the system's `ssh`.
//!
//! A list of hosts names one on each line, and any program can print it, so clouds need no code here. A
//! [`Connection`] copies programs and files to a host, and runs commands there.

mod connection;
mod guard;
mod list;

pub use connection::Connection;
pub use list::{HostError, HostName, Hosts};
