//! Experiments: which programs spread which content between which nodes, how fast and at what cost, and
//! whether one commit does it better than another.
//!
//! An [`Experiment`] is a file of clusters, scenarios and trials. A [`Driver`] runs one [`TrialPlan`]:
//! [`Simulated`] on a simulated clock and network, where every node runs the real exchange, and
//! [`Processes`] with a real program for each node, in network namespaces on a wire when the trial has links, paths or
//! kinds of NAT. [`Ssh`] has the nodes on other hosts, and [`Standing`] has nodes that stay. Each run has a [`RunResult`],
//! and every driver fills in the same one. [`compare`] gives a verdict about two sides of an experiment, figure by figure.
//!
//! Its modules import only those in the lines below their own:
//!
//! ```text
//! runner       which trial runs when, on one side or two
//! page         figures as a page of the documents, and its age
//! drivers      run a trial, each in its own world
//! results      the measurements of a run, its figures, and the verdict about two sides
//! import       p2plab's definitions as an experiment
//! builds       programs at a git reference, each built once
//! interruption   whether the user has interrupted all runs
//! memory_filler   fills the free memory before a run
//! machine      what the machine is, and how busy others keep it
//! hosts        other machines, over ssh
//! definition   clusters, scenarios and trials, as a file and node by node
//! ```
//!
//! ```
//! let text = "
//!     [clusters.pair]
//!     groups = [
//!       { name = 'seeder', link = { up = '10Mbit', down = '10Mbit' } },
//!       { name = 'leecher', link = { up = '10Mbit', down = '10Mbit' } },
//!     ]
//!     [scenarios.spread]
//!     objects.file = { random = '1MiB' }
//!     seed = { seeder = 'file' }
//!     fetch = { leecher = 'file' }
//! ";
//! use watchfire_lab::{Driver, Experiment, Simulated};
//!
//! let experiment = Experiment::parse("pair.toml", text)?;
//! let plan = experiment.plan(&experiment.trials[0], 0);
//! let result = Simulated.run(&plan, &mut |_| {})?;
//! assert_eq!(result.unfinished(), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![allow(missing_docs, reason = "only the crate `watchfire` is documented item by item")]

mod builds;
mod definition;
mod drivers;
mod hosts;
mod import;
mod interruption;
pub mod machine;
mod memory_filler;
mod page;
mod results;
mod runner;

pub use builds::{BuildError, Builds};
pub use definition::{
    Build, Churn, Cluster, DefinitionError, Experiment, Fault, FaultKind, Group, Implementation,
    Link, Load, NODES_MAX, NatKind, NodePlan, Object, ObjectPlan, Path, Peer, Query, QueryError,
    Scenario, Target, Trial, TrialPlan, UnknownTrial,
};
pub use drivers::{
    Driver, DriverError, LAB_MARK, NodeProgress, NodeState, Processes, Progress, Simulated,
    SimulatedBy, Ssh, Standing, StandingError, StandingNode, Traced, Workspace,
};
pub use hosts::{Connection, HostError, HostName, Hosts};
pub use import::{ImportError, Imported, Source, Substitute, import};
pub use interruption::{interrupt, is_interrupted};
pub use memory_filler::MemoryFiller;
pub use page::{Age, AgeError, Page, PageHead, targets_table};
pub use results::spans::{Receiver, jaeger, perfetto, spans};
pub use results::{
    Calibration, Comparison, Figure, FigureVerdict, NodeResult, PAIRS_ADVISED, PAIRS_MIN,
    RunResult, RunTrace, Span, Transfer, Verdict, WireFigures, calibration_page, compare,
    comparison_html, comparison_table, csv, results_table,
};
pub use runner::{FailedTrial, Results, Turn, compare_all, run_all};
