//! The progress of a preload: bars on a terminal, a line for each blob elsewhere.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use watchfire_mirror::client::{BlobSource, ImageBlob};
use watchfire_report::units::binary_bytes;

use super::{BlobProgress, Summary};
use crate::live_lines::LiveLines;
use crate::progress::{self, Step};
use crate::serve::print_line;

/// Prints lines, and draws bars below them on a terminal.
#[derive(Default)]
pub struct Display {
    prints: bool,
    live: Option<LiveLines>,
    started: Option<Instant>,
}

impl Display {
    /// A display without bars yet.
    pub fn start() -> Self {
        let live = io::stdout().is_terminal().then(LiveLines::default);
        Display { prints: true, live, started: Some(Instant::now()) }
    }

    pub fn print(&mut self, line: &str) {
        self.end();
        if self.prints {
            print_line(line);
        }
    }

    /// Prints the line of a blob that is in the store.
    pub fn print_blob(&mut self, blob: &ImageBlob, source: BlobSource, bytes: u64, took: Duration) {
        self.print(&blob_line(blob, source, bytes, took));
    }

    pub fn draw(&mut self, running: &[Arc<BlobProgress>], summary: &Summary, total: u64) {
        let Some(live) = &mut self.live else { return };
        let elapsed = self.started.map_or(Duration::ZERO, |started| started.elapsed());
        let received = |one: &Arc<BlobProgress>| one.received.load(Ordering::Relaxed);
        let mut lines: Vec<String> = running
            .iter()
            .map(|one| {
                let step =
                    Step { bytes: received(one), total_bytes: one.blob.bytes, ..Step::default() };
                format!("{}  {}", short(&one.blob), progress::line(&step, one.started.elapsed()))
            })
            .collect();
        let running: u64 = running.iter().map(received).sum();
        let step = Step {
            bytes: summary.loaded.1 + summary.present.1 + running,
            total_bytes: Some(total),
            bytes_per_second: Some(
                (summary.loaded.1 + running) as f64 / elapsed.as_secs_f64().max(0.001),
            ),
            note: String::new(),
        };
        lines.push(format!("{:<19}  {}", "all", progress::line(&step, elapsed)));
        // The work continues when the terminal is closed.
        let _ = live.draw(&lines, &mut io::stdout());
    }

    pub fn end(&mut self) {
        if let Some(live) = &mut self.live {
            let _ = live.clear(&mut io::stdout());
        }
    }
}

fn blob_line(blob: &ImageBlob, source: BlobSource, bytes: u64, took: Duration) -> String {
    let source = match source {
        BlobSource::Store => "was in the store".to_owned(),
        BlobSource::Registry => format!("from the registry in {:.1} s", took.as_secs_f64()),
        BlobSource::Fleet => format!("with the fleet in {:.1} s", took.as_secs_f64()),
    };
    format!("{}  {:>10}  {source}", short(blob), binary_bytes(bytes))
}

/// The digest with its first digits only.
fn short(blob: &ImageBlob) -> String {
    blob.digest.to_string().chars().take(19).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_blob_names_its_source() {
        let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
        let blob = ImageBlob {
            registry: "a.example".into(),
            repository: "app".parse().unwrap(),
            digest: digest.parse().unwrap(),
            bytes: None,
            may_be_elsewhere: false,
        };
        let line = |source| blob_line(&blob, source, 3 << 19, Duration::from_millis(1250));
        let start = "sha256:0123456789ab     1.5 MiB  ";
        assert_eq!(line(BlobSource::Store), format!("{start}was in the store"));
        assert_eq!(line(BlobSource::Registry), format!("{start}from the registry in 1.2 s"));
        assert_eq!(line(BlobSource::Fleet), format!("{start}with the fleet in 1.2 s"));
    }
}
