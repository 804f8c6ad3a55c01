//! `--dashboard`: the report of a run while it grows, on a page that a browser shows, wherever the run is.
//!
//! A command renders its [`Page`] about once a second, from the results so far. Every viewer receives the newest page as a
//! server-sent event, and a viewer that is slow misses pages in between: nothing waits for it, and nothing is queued for
//! it. The last page is the report that `--report` writes.
//!
//! The bounds: 32 viewers, and of the time of a run at most a tenth is spent on pages, because a page of a long load takes
//! longer than one of a short load.

#[cfg(feature = "lab")]
mod of_lab;
mod of_load;
mod server;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::sync::watch;
use watchfire_report::{escape, page};

#[cfg(feature = "lab")]
pub use of_lab::LabDashboard;
use of_load::Calls;
pub use of_load::LoadDashboard;

/// The time between two pages.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time between two pages is at least this often the time that one takes.
const PACE: u32 = 10;
/// The time in which the last page must reach the viewers.
const LAST_PAGE_TIMEOUT: Duration = Duration::from_secs(1);
const SCRIPT: &str = include_str!("script.html");

/// A page that is served until this is dropped.
pub struct Dashboard {
    pages: Option<watch::Sender<Arc<str>>>,
    server: Option<std::thread::JoinHandle<()>>,
    next_at: Instant,
}

impl Dashboard {
    /// `calls` answers the requests besides the page.
    fn start(
        address: SocketAddr,
        name: &str,
        calls: Option<Arc<Calls>>,
    ) -> anyhow::Result<Dashboard> {
        let cannot = || format!("cannot listen on {address} for the dashboard");
        let listener = TcpListener::bind(address).with_context(cannot)?;
        listener.set_nonblocking(true).with_context(cannot)?;
        let address = listener.local_addr().with_context(cannot)?;
        let first = growing(&page(name, ""), 0.0, "The run has no results yet.");
        let (pages, newest) = watch::channel(Arc::from(first));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener).with_context(cannot)?
        };
        let server = std::thread::Builder::new()
            .name("dashboard".into())
            .spawn(move || runtime.block_on(server::serve(listener, newest, calls)))?;
        eprintln!("The dashboard is at http://{address}/");
        Ok(Dashboard { pages: Some(pages), server: Some(server), next_at: Instant::now() })
    }

    /// Shows a page if the next one is due.
    fn show(&mut self, page: impl FnOnce() -> String) {
        let began = Instant::now();
        if began >= self.next_at {
            self.publish(page());
            self.next_at = began + INTERVAL.max(began.elapsed() * PACE);
        }
    }

    /// Shows the report of a run that has ended.
    pub fn end(self, report: String) {
        self.publish(report);
    }

    fn publish(&self, page: String) {
        if let Some(pages) = &self.pages {
            pages.send_replace(page.into());
        }
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        // The server ends once each viewer has the last page.
        self.pages = None;
        let _ = self.server.take().map(std::thread::JoinHandle::join);
    }
}

/// The report of a run that goes on: it begins with the progress, and replaces itself.
fn growing(report: &str, part: f64, progress: &str) -> String {
    let progress = format!(
        "</h1><progress value=\"{part:.3}\" style=\"width: 100%\" aria-label=\"progress\"></progress>\
         <p id=\"progress\" style=\"white-space: pre-wrap\">{}</p>",
        escape(progress)
    );
    let report = report.replacen("</h1>", &progress, 1);
    format!("{}{SCRIPT}</html>\n", report.trim_end().trim_end_matches("</html>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_rendered_once_a_second_at_most() {
        let mut dashboard =
            Dashboard::start("127.0.0.1:0".parse().unwrap(), "a run", None).unwrap();
        let mut rendered = 0;
        for _ in 0..3 {
            dashboard.show(|| {
                rendered += 1;
                String::new()
            });
        }
        assert_eq!(rendered, 1);
    }

    #[test]
    fn a_report_that_grows_has_the_progress_after_its_title() {
        let page = growing(&page("a run", "<p>charts"), 0.5, "1 < 2");
        assert!(page.contains("<h1>a run</h1><progress value=\"0.500\""), "{page}");
        assert!(page.contains("pre-wrap\">1 &lt; 2</p><p>charts<script>"), "{page}");
        assert!(page.ends_with("</script>\n</html>\n") && page.matches("</html>").count() == 1);
    }
}
