//! The measurements of a run, its figures, and the verdict about two sides.
//!
//! Its modules import only those in the lines below their own:
//!
//! ```text
//! calibration, html                 pages
//! table, csv, spans                 figures as tables, nodes as lines, and what each node did when
//! verdict                           better, worse, or within noise
//! figure                            the figures of a run
//! run_result                        the measurements
//! load_over_time, trace             a load over time, and the spans that programs exported
//! ```

mod calibration;
mod csv;
mod figure;
mod html;
mod load_over_time;
mod run_result;
pub mod spans;
mod table;
mod trace;
mod verdict;

pub use calibration::{Calibration, calibration_page};
pub use csv::csv;
pub use figure::Figure;
pub use html::comparison_html;
pub(crate) use html::html;
pub use load_over_time::{LoadOverTime, ServerSample};
pub(crate) use run_result::NOISE_MAX;
pub use run_result::{NodeResult, RunResult, Transfer, WireFigures};
pub use table::{comparison_table, results_table};
pub(crate) use table::{
    decimals, figure_spread, range_of, results_rows, short, shown_name, spread,
};
pub use trace::{RunTrace, Span, trace_id, traceparent};
pub(crate) use verdict::median;
pub use verdict::{Comparison, FigureVerdict, PAIRS_ADVISED, PAIRS_MIN, Verdict, compare};
