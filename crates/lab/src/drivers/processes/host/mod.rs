//! Where the processes of a node run, and how they are started, limited, measured and ended.
//!
//! Its modules import only those in the lines below their own:
//!
//! ```text
//! network, instruments       the places of all nodes; what programs record beside their figures
//! process                    a process at a place
//! site, addresses            the place of one node; loopback addresses of a run
//! wire, processors, workspace, folder_removal, process_tree, process_id
//! ```

mod addresses;
mod folder_removal;
mod instruments;
mod network;
mod process;
mod process_id;
mod process_tree;
mod processors;
mod site;
pub mod wire;
mod workspace;

pub use addresses::{Addresses, SITES_MAX};
pub use instruments::Instruments;
pub use network::Network;
pub use process::{NodeError, Process, run_to_end};
pub use process_id::ProcessId;
pub use process_tree::{ProcessTree, Usage, memory, pinned_kernel_memory};
pub use processors::{check as check_processors, limits};
pub use site::{PORTS, Remote, Site};
pub use workspace::{MARK, STANDING, Workspace};
