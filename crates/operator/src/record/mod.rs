//! The record of a machine: figures over time, computed from the metrics of all its processes.

mod columns;
mod history;
mod sampler;
mod system;

pub(super) use self::columns::{Column, Columns};
pub(super) use self::history::{Event, History, HistoryFileError, Step};
pub(super) use self::sampler::{ProcessFigures, Row, Sampler};
pub(super) use self::system::SystemFigures;
