//! One line of the log for each HTTP request below chosen paths: `log.request_paths`.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant as SystemInstant;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};

use crate::settings::LogSettings;

/// A longer path is cut. A head may have 16 KiB, and each request writes a line.
const PATH_BYTES_MAX: usize = 256;
/// A longer method is cut. Clients may make up methods.
const METHOD_BYTES_MAX: usize = 16;

/// Logs the requests to a router, if there are paths whose requests are logged. Without one, the router
/// stays as it is.
pub fn log_requests(router: Router, settings: &LogSettings) -> Router {
    match settings.request_paths.as_slice() {
        [] => router,
        paths => router.layer(from_fn_with_state(Arc::<[String]>::from(paths), log_request)),
    }
}

async fn log_request(State(paths): State<Arc<[String]>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if !paths.iter().any(|start| path.starts_with(start)) {
        return next.run(request).await;
    }
    let client = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let mut line = Line {
        began: SystemInstant::now(),
        method: printable(request.method().as_str(), METHOD_BYTES_MAX),
        path: printable(path, PATH_BYTES_MAX),
        client: client.map(|client| client.0.ip().to_canonical()),
        status: None,
        bytes: 0,
    };
    let response = next.run(request).await;
    line.status = Some(response.status().as_u16());
    response.map(|body| Body::new(LoggedBody { body, line }))
}

/// The line of one request. It is written when it is dropped: when the answer is complete, or when the
/// connection ends before.
struct Line {
    began: SystemInstant,
    method: String,
    path: String,
    client: Option<IpAddr>,
    /// `None` until there is an answer.
    status: Option<u16>,
    /// The bytes of the answer's body.
    bytes: u64,
}

impl Drop for Line {
    fn drop(&mut self) {
        let Line { began, method, path, client, status, bytes } = self;
        let duration_ms = began.elapsed().as_micros() as f64 / 1_000.0;
        let client = client.map(tracing::field::display);
        tracing::info!(
            target: "watchfire::request",
            method, path, status, duration_ms, bytes, client, "request"
        );
    }
}

/// The body of an answer, with the line that is written when it ends.
struct LoggedBody {
    body: Body,
    line: Line,
}

impl HttpBody for LoggedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.line.bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A text from a client in printable ASCII: everything else is escaped, so that it changes neither the line nor
/// the terminal that shows it. A longer text is cut, and ends with `...`.
fn printable(text: &str, bytes_max: usize) -> String {
    let mut printable = String::new();
    for c in text.chars() {
        if printable.len() >= bytes_max {
            printable.push_str("...");
            break;
        }
        match c.is_ascii_graphic() {
            true => printable.push(c),
            false => printable.extend(c.escape_unicode()),
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_client_stays_on_its_line_and_within_its_length() {
        assert_eq!(printable("/healthz", PATH_BYTES_MAX), "/healthz");
        assert_eq!(printable("/a\n\u{1b}[2J\u{202e}b c", 64), r"/a\u{a}\u{1b}[2J\u{202e}b\u{20}c");
        assert_eq!(printable(&"/".repeat(256), 256), "/".repeat(256));
        assert_eq!(printable(&"/".repeat(257), 256), format!("{}...", "/".repeat(256)));
        assert!(printable(&"\u{10ffff}".repeat(10_000), 256).len() < 256 + 16);
    }
}
