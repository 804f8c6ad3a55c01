//! Figures of a machine over time and tables, computed from the metrics of all its processes.

mod columns;
mod history;
mod sampler;
mod system;
mod tables;

pub(super) use self::columns::{Column, Columns};
pub(super) use self::history::{History, HistoryFileError, Step};
pub(super) use self::sampler::{Row, Sampler};
pub(super) use self::system::SystemFigures;
pub(super) use self::tables::{filled, own_tables};
