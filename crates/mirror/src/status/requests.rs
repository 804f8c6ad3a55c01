//! Counts of the answered requests.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Manifest,
    Blob,
    File,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Store,
    Fleet,
    Registry,
    Error,
}

/// Counts of the answered requests, by their kind and source.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    manifests: [AtomicU64; 4],
    blobs: [AtomicU64; 4],
    files: [AtomicU64; 4],
}

/// The requests for manifests and blobs since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTotals {
    pub manifests: SourceTotals,
    /// Requests for blobs, without those that ask for the size only (`HEAD`).
    pub blobs: SourceTotals,
    /// Requests for files of proxy hosts, without `HEAD`.
    #[serde(default)]
    pub files: SourceTotals,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceTotals {
    /// The store had the content: a hit.
    pub store: u64,
    /// The blob was being fetched with other hosts of the fleet, or another host had the manifest.
    pub fleet: u64,
    /// The registry, or the server of the file, was asked.
    pub registry: u64,
    /// The answer was an error, also that the registry does not have the content.
    pub error: u64,
}

impl Requests {
    pub(crate) fn count(&self, kind: Kind, source: Source) {
        let counters = match kind {
            Kind::Manifest => &self.manifests,
            Kind::Blob => &self.blobs,
            Kind::File => &self.files,
        };
        counters[source as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn totals(&self) -> RequestTotals {
        let totals = |counters: &[AtomicU64; 4]| {
            let count = |source: Source| counters[source as usize].load(Ordering::Relaxed);
            SourceTotals {
                store: count(Source::Store),
                fleet: count(Source::Fleet),
                registry: count(Source::Registry),
                error: count(Source::Error),
            }
        };
        RequestTotals {
            manifests: totals(&self.manifests),
            blobs: totals(&self.blobs),
            files: totals(&self.files),
        }
    }
}
