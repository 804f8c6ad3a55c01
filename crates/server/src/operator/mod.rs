//! The operator's view: figures over time, troubles, events, and the connections and topics of now.
//! `admin` serves it on the operator's listener, as a page and as JSON.
//!
//! The first process of a machine *records*: once a second it asks all processes of the machine for
//! their metrics ([`recorder`]), computes a row of figures ([`columns`], [`sample`]), adds it to the
//! history ([`history`]), and looks for trouble ([`troubles`]). Any process answers a request: it asks
//! the recorder of the machine for what was recorded, and all processes for what they have now
//! ([`calls`], [`routes`]).

mod calls;
mod columns;
mod history;
mod machines;
mod recorder;
mod routes;
mod sample;
mod system;
mod troubles;

#[cfg(test)]
pub(crate) use self::calls::message_samples;
pub(crate) use self::calls::{Operator, OperatorParts};
pub(crate) use self::recorder::RecorderThread;
pub(crate) use self::troubles::TroubleMetrics;
