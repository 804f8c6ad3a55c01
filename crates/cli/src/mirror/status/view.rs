//! The status of a mirror as lines of text.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use watchfire_mirror::{
    AskedHost, FleetStatus, HostAnswer, RunningDownload, SourceTotals, StatusReport,
};
use watchfire_report::units::{binary_bytes, count};

use crate::progress::{self, Step, show_seconds};

/// Images that are shown; --json has more.
const IMAGES_SHOWN: usize = 20;
/// Files that are shown; --json has more.
const FILES_SHOWN: usize = 20;
const DOWNLOADS_SHOWN: usize = 20;
/// The shortest time between two looks from which a rate is computed.
const RATE_TIME_MIN: Duration = Duration::from_millis(100);

/// Makes lines of reports, and computes rates from one report to the next.
#[derive(Debug, Default)]
pub struct View {
    before: Option<(Instant, HashMap<String, u64>)>,
}

impl View {
    pub fn lines(&mut self, report: &StatusReport) -> Vec<String> {
        self.lines_at(report, Instant::now())
    }

    fn lines_at(&mut self, report: &StatusReport, now: Instant) -> Vec<String> {
        let rates = self.rates(report, now);
        let StatusReport { version, uptime_seconds, store, downloads, requests, running, .. } =
            report;
        let mut lines = vec![
            format!("Mirror {version}, started {} ago", show_seconds(*uptime_seconds)),
            format!(
                "Store     {} of {} in {} blobs, {} removed to make room",
                binary_bytes(store.bytes),
                binary_bytes(store.bytes_max),
                count(store.blobs),
                count(store.evicted)
            ),
            format!(
                "Received  {} from registries, {} from other hosts",
                binary_bytes(downloads.registry_bytes),
                binary_bytes(downloads.host_bytes)
            ),
            format!(
                "Blobs     {} fetched, {} failed, {} running",
                count(downloads.completed),
                count(downloads.failed),
                count(running.len() as u64)
            ),
            format!("Answers   manifests: {}", sources(&requests.manifests)),
            format!("          blobs: {}", sources(&requests.blobs)),
        ];
        if report.file_count > 0 {
            lines.push(format!("          files: {}", sources(&requests.files)));
        }
        match &report.fleet {
            Some(fleet) => lines.extend(fleet_lines(fleet)),
            None => {
                lines.push("Fleet     none; --peer-listen shares images with other hosts".into())
            }
        }
        lines.push(format!("Images    {}", count(report.image_count)));
        for image in report.images.iter().take(IMAGES_SHOWN) {
            lines.push(format!("  {}  {}", image.name, short(&image.digest)));
        }
        lines.extend(more(IMAGES_SHOWN, report.image_count, "images"));
        if report.file_count > 0 {
            lines.push(format!("Files     {}", count(report.file_count)));
        }
        for file in report.files.iter().take(FILES_SHOWN) {
            lines.push(format!("  {}  {}", file.url, binary_bytes(file.bytes)));
        }
        lines.extend(more(FILES_SHOWN, report.file_count, "files"));
        if !running.is_empty() {
            lines.push("Running downloads".into());
        }
        for download in running.iter().take(DOWNLOADS_SHOWN) {
            lines.extend(download_lines(download, rates.get(&download.digest).copied()));
        }
        lines.extend(more(DOWNLOADS_SHOWN, running.len() as u64, "downloads"));
        lines
    }

    /// The bytes per second of each running download since the report before.
    fn rates(&mut self, report: &StatusReport, now: Instant) -> HashMap<String, f64> {
        let present = report.running.iter().map(|one| (one.digest.clone(), one.present_bytes));
        let present: HashMap<String, u64> = present.collect();
        let rates = match &self.before {
            Some((at, before)) if now - *at >= RATE_TIME_MIN => {
                let seconds = (now - *at).as_secs_f64();
                let rate = |(digest, bytes): (&String, &u64)| {
                    let new = bytes.saturating_sub(*before.get(digest)?);
                    Some((digest.clone(), new as f64 / seconds))
                };
                present.iter().filter_map(rate).collect()
            }
            _ => HashMap::new(),
        };
        self.before = Some((now, present));
        rates
    }
}

fn sources(totals: &SourceTotals) -> String {
    let SourceTotals { store, fleet, registry, error } = *totals;
    let parts =
        [(store, "from the store"), (fleet, "fleet"), (registry, "registry"), (error, "errors")];
    parts.map(|(number, name)| format!("{} {name}", count(number))).join(", ")
}

fn fleet_lines(fleet: &FleetStatus) -> Vec<String> {
    let region = fleet.region.as_ref().map_or(String::new(), |name| format!(", region {name}"));
    let regions = fleet.regions.iter().map(|region| {
        let received = binary_bytes(region.received_bytes);
        format!("          received {received} from region {}, price {}", region.name, region.price)
    });
    let lines = [
        format!("Fleet     {} at {}{region}", fleet.peer_id, fleet.addresses.join(", ")),
        format!(
            "          knows {} other hosts, connected to {}, coordinates {} blobs",
            count(fleet.known_hosts as u64),
            count(fleet.connections as u64),
            count(fleet.coordinated_blobs as u64)
        ),
        format!(
            "          received {}, sent {}, received twice {}",
            binary_bytes(fleet.received_bytes),
            binary_bytes(fleet.sent_bytes),
            binary_bytes(fleet.duplicate_bytes)
        ),
    ];
    lines.into_iter().chain(regions).collect()
}

/// The lines of one download. Without a rate, the average since its start is shown.
fn download_lines(download: &RunningDownload, rate: Option<f64>) -> Vec<String> {
    let received = download.registry_bytes + download.host_bytes;
    let average = received as f64 / download.seconds.max(0.001);
    let step = Step {
        bytes: download.present_bytes,
        total_bytes: download.bytes,
        bytes_per_second: Some(rate.unwrap_or(average)),
        note: String::new(),
    };
    let elapsed = Duration::try_from_secs_f64(download.seconds).unwrap_or_default();
    let mut lines = vec![
        format!("  {}  {}", short(&download.digest), download.repository),
        format!("    {}", progress::line(&step, elapsed)),
        format!(
            "    {} from the registry, {} from other hosts",
            binary_bytes(download.registry_bytes),
            binary_bytes(download.host_bytes)
        ),
    ];
    lines.extend(download.hosts.iter().map(host_line));
    lines
}

fn host_line(host: &AskedHost) -> String {
    let answer = match &host.answer {
        HostAnswer::Waiting => "no answer yet".to_owned(),
        HostAnswer::Hashes { count: number } => format!("knows {} blocks", count(*number)),
        HostAnswer::Blob => "sent the blob".to_owned(),
        HostAnswer::Absent => "has nothing of it".to_owned(),
        HostAnswer::Error { cause } => format!("failed: {cause}"),
    };
    let name = host.addresses.first().unwrap_or(&host.id);
    format!("    asked {name}: {answer}")
}

fn more(shown: usize, all: u64, name: &str) -> Option<String> {
    let rest = all.saturating_sub(shown as u64);
    (rest > 0).then(|| format!("  and {} more {name}; --json shows them", count(rest)))
}

/// A digest with its first digits only.
fn short(digest: &str) -> &str {
    digest.get(..19).unwrap_or(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn report() -> StatusReport {
        serde_json::from_value(serde_json::json!({
            "version": "1.2.3", "uptime_seconds": 187.0, "image_count": 1,
            "images": [{ "name": "a.example/app:v1", "digest": "sha256:0123456789abcdef" }],
            "store": { "blobs": 1234, "bytes": 300 * MIB, "bytes_max": 1024 * MIB, "evicted": 2 },
            "downloads": { "completed": 3, "failed": 1, "registry_bytes": MIB, "host_bytes": 2 * MIB },
            "requests": {
                "manifests": { "store": 1, "fleet": 2, "registry": 3, "error": 4 },
                "blobs": { "store": 5, "fleet": 6, "registry": 7, "error": 8 },
            },
            "running": [{
                "digest": "sha256:fedcba9876543210", "repository": "a.example/app", "seconds": 2.0,
                "bytes": 8 * MIB, "present_bytes": 4 * MIB, "registry_bytes": MIB,
                "host_bytes": 3 * MIB,
                "hosts": [
                    { "id": "P1", "addresses": ["/ip4/192.0.2.1/tcp/5001"], "answer": "hashes", "count": 9 },
                    { "id": "P2", "addresses": [], "answer": "absent" },
                    { "id": "P3", "addresses": [], "answer": "error", "cause": "no answer within 10s" },
                ],
            }],
            "fleet": null,
        }))
        .unwrap()
    }

    #[test]
    fn a_report_is_shown_with_its_downloads_and_the_answers_of_hosts() {
        let lines = View::default().lines(&report());
        let expected = [
            "Mirror 1.2.3, started 3:07 ago",
            "Store     300.0 MiB of 1.0 GiB in 1,234 blobs, 2 removed to make room",
            "Received  1.0 MiB from registries, 2.0 MiB from other hosts",
            "Blobs     3 fetched, 1 failed, 1 running",
            "Answers   manifests: 1 from the store, 2 fleet, 3 registry, 4 errors",
            "          blobs: 5 from the store, 6 fleet, 7 registry, 8 errors",
            "Fleet     none; --peer-listen shares images with other hosts",
            "Images    1",
            "  a.example/app:v1  sha256:0123456789ab",
            "Running downloads",
            "  sha256:fedcba987654  a.example/app",
            "    ━━━━━━━━━━━━────────────  50 %  4.0 MiB of 8.0 MiB  2.0 MiB/s  2 s left",
            "    1.0 MiB from the registry, 3.0 MiB from other hosts",
            "    asked /ip4/192.0.2.1/tcp/5001: knows 9 blocks",
            "    asked P2: has nothing of it",
            "    asked P3: failed: no answer within 10s",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn files_are_shown_if_there_are_any() {
        let mut report = report();
        report.file_count = 1;
        report.files = serde_json::from_value(serde_json::json!([
            { "url": "https://a.example/b", "bytes": MIB, "digest": "sha256:0123456789abcdef" },
        ]))
        .unwrap();
        let lines = View::default().lines(&report);
        assert_eq!(lines[6], "          files: 0 from the store, 0 fleet, 0 registry, 0 errors");
        assert_eq!(lines[10..12], ["Files     1", "  https://a.example/b  1.0 MiB"]);
    }

    #[test]
    fn a_rate_is_that_since_the_report_before() {
        let mut view = View::default();
        let mut report = report();
        let start = Instant::now();
        view.lines_at(&report, start);
        report.running[0].present_bytes += MIB;
        let lines = view.lines_at(&report, start + Duration::from_millis(500));
        assert!(lines[11].contains("5.0 MiB of 8.0 MiB  2.0 MiB/s"), "{}", lines[11]);
        report.running[0].present_bytes += MIB;
        let lines = view.lines_at(&report, start + Duration::from_millis(750));
        assert!(lines[11].contains("6.0 MiB of 8.0 MiB  4.0 MiB/s"), "{}", lines[11]);
    }

    #[test]
    fn long_lists_are_cut() {
        let mut report = report();
        report.image_count = 1_500;
        report.images = vec![report.images[0].clone(); 1_000];
        let lines = View::default().lines(&report);
        assert!(
            lines.contains(&"  and 1,480 more images; --json shows them".to_owned()),
            "{lines:?}"
        );
    }
}
