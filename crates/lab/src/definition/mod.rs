//! An experiment as data: clusters of nodes, scenarios of objects, and the trials that combine them.
//!
//! [`Experiment::parse`] reads a file and checks every reference, so that the rest of the crate works
//! with values that fit together. [`Experiment::plan`] expands one trial into its nodes.
//!
//! Its modules import only those in the lines below their own:
//!
//! ```text
//! file           the format of an experiment file
//! plan, image    one trial, node by node; images that are made for an experiment
//! experiment     the values of a file
//! figure, query  which figures there are; which nodes something is about
//! ```

mod experiment;
mod figure;
mod file;
mod image;
mod plan;
mod query;

pub use experiment::{
    ADDRESS_OF, Build, Churn, Cluster, Experiment, Fault, FaultKind, Group, Implementation, Link,
    Load, NODES_MAX, Object, PageFigure, Peer, RandomLayer, Scenario, Target, TargetBound, Trial,
    UnknownTrial, Waves, groups_addressed,
};
pub use figure::Figure;
#[cfg(test)]
pub use plan::assert_refused;
pub use plan::{NodePlan, ObjectPlan, TrialPlan};
pub use query::{Query, QueryError};
pub use watchfire_report::scenario::ScenarioError as DefinitionError;
pub use watchfire_sim::Path;
pub use watchfire_wire::NatKind;
