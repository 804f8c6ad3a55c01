//! The one exporter of this process, and which traces it gets.

use std::cell::RefCell;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;

use watchfire_types::Rng;

use crate::span::FinishedSpan;

/// A process has one exporter.
#[derive(Debug)]
pub struct AlreadyStarted;

struct Exporter {
    /// The share of new traces that are recorded.
    sample: f64,
    export: Box<dyn Fn(FinishedSpan) + Send + Sync>,
}

static EXPORTER: OnceLock<Exporter> = OnceLock::new();

thread_local! {
    static RNG: RefCell<Rng> = RefCell::new(Rng::from_seed(seed()));
}

/// Starts recording spans. `sample` is the share of new traces that are recorded, from 0 to 1; for
/// a trace that began elsewhere, its beginning decides. `export` is called on the thread of each
/// span that ends, so it must not wait.
pub fn start(
    sample: f64,
    export: impl Fn(FinishedSpan) + Send + Sync + 'static,
) -> Result<(), AlreadyStarted> {
    let exporter = Exporter { sample, export: Box::new(export) };
    EXPORTER.set(exporter).map_err(|_| AlreadyStarted)
}

/// Whether an exporter receives spans.
pub fn is_on() -> bool {
    EXPORTER.get().is_some()
}

/// Whether a new trace is recorded.
pub(crate) fn samples_new_trace() -> bool {
    let Some(exporter) = EXPORTER.get() else { return false };
    RNG.with_borrow_mut(Rng::fraction) < exporter.sample
}

/// Exports a span that another program measured, such as a browser.
pub fn report(span: FinishedSpan) {
    export(span);
}

pub(crate) fn export(span: FinishedSpan) {
    if let Some(exporter) = EXPORTER.get() {
        (exporter.export)(span);
    }
}

/// Random bytes for an id, which are not all zeros.
pub(crate) fn random_id<const BYTES: usize>() -> [u8; BYTES] {
    RNG.with_borrow_mut(|rng| {
        let mut id = [0; BYTES];
        for part in id.chunks_mut(8) {
            part.copy_from_slice(&rng.next_u64().to_be_bytes()[..part.len()]);
        }
        id[BYTES - 1] |= u8::from(id == [0; BYTES]);
        id
    })
}

/// Ids need no secrecy. So a system without random bytes falls back to the seed of its hash maps.
fn seed() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => RandomState::new().hash_one(std::thread::current().id()),
    }
}
