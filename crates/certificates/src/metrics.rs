//! The counts of certificates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use watchfire_metrics::{MetricSource, MetricWriter};
use watchfire_sockets::Certificates;

use super::expiry::Validity;

/// Counts the events of certificates in this process.
#[derive(Debug, Default)]
pub(super) struct TlsCounts {
    pub loads: AtomicU64,
    pub load_failures: AtomicU64,
    pub orders: AtomicU64,
    pub order_failures: AtomicU64,
}

/// The counts of certificates, for `/metrics`.
#[derive(Debug)]
pub(crate) struct TlsMetrics {
    certificates: Arc<Certificates>,
    counts: Arc<TlsCounts>,
    /// Only one process reports the end of the certificate: the values of processes are added.
    reports_end: bool,
}

impl TlsMetrics {
    pub(super) fn new(
        certificates: Arc<Certificates>,
        counts: Arc<TlsCounts>,
        reports_end: bool,
    ) -> Self {
        TlsMetrics { certificates, counts, reports_end }
    }
}

impl MetricSource for TlsMetrics {
    fn write_metrics(&self, writer: &mut MetricWriter) {
        let validity = self.certificates.current().as_ref().and_then(Validity::of);
        if let Some(validity) = validity.filter(|_| self.reports_end) {
            let end = validity.not_after.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let help = "Unix time at which the TLS certificate expires";
            writer.gauge("tls_certificate_end_timestamp_seconds", help, end.as_secs());
        }
        let TlsCounts { loads, load_failures, orders, order_failures } = &*self.counts;
        for (name, help, value) in [
            ("tls_certificate_loads", "New certificates that were loaded", loads),
            ("tls_certificate_load_failures", "Certificates that cannot be used", load_failures),
            ("tls_orders", "Certificates that an ACME server issued", orders),
            ("tls_order_failures", "Orders of certificates that failed", order_failures),
        ] {
            writer.counter(name, help, value.load(Ordering::Relaxed));
        }
    }
}
