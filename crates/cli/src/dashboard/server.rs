//! Serves the newest page, and the pages after it as events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use super::{Calls, LAST_PAGE_TIMEOUT};

const VIEWERS_MAX: u32 = 32;
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The page needs nothing from elsewhere, and may load nothing.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'";

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Serves viewers until no more pages come, and each viewer has the last one.
pub async fn serve(
    listener: TcpListener,
    mut pages: watch::Receiver<Arc<str>>,
    calls: Option<Arc<Calls>>,
) {
    let viewers = Arc::new(Semaphore::new(VIEWERS_MAX as usize));
    let newest = pages.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ended(&mut pages) => break,
        };
        let Ok((stream, _)) = accepted else {
            // Out of files: others may be closed soon.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&viewers).try_acquire_owned() else { continue };
        let (newest, calls) = (newest.clone(), calls.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let response = respond(&request, &newest, calls.as_deref());
                async move { Ok::<_, Infallible>(response) }
            });
            let mut connection = http1::Builder::new();
            connection.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
            // A viewer may close its page at any time.
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
    let _ = tokio::time::timeout(LAST_PAGE_TIMEOUT, viewers.acquire_many(VIEWERS_MAX)).await;
}

/// Waits until no more pages come.
async fn ended(pages: &mut watch::Receiver<Arc<str>>) {
    while pages.changed().await.is_ok() {}
}

fn respond(
    request: &Request<Incoming>,
    pages: &watch::Receiver<Arc<str>>,
    calls: Option<&Calls>,
) -> Response<Body> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => {
            let page = pages.borrow().to_string();
            (StatusCode::OK, "text/html; charset=utf-8", text(page))
        }
        (&Method::GET, "/events") => (StatusCode::OK, "text/event-stream", events(pages.clone())),
        (method, path) => match calls {
            Some(calls) => {
                let header = request.headers().get(AUTHORIZATION);
                let bearer = header.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
                let query = request.uri().query().unwrap_or_default();
                let (status, answer) =
                    calls.answer(method.as_str(), path, query, bearer.unwrap_or_default());
                (status, "application/json", text(answer.to_string()))
            }
            None => (StatusCode::NOT_FOUND, "text/plain", text("not found\n".to_owned())),
        },
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_SECURITY_POLICY, http::HeaderValue::from_static(POLICY));
    response
}

fn text(text: String) -> Body {
    Full::new(Bytes::from(text)).boxed_unsync()
}

/// The newest page, and each later one that the viewer is fast enough for. A page is a string of JSON, which is one line.
fn events(mut pages: watch::Receiver<Arc<str>>) -> Body {
    pages.mark_changed();
    let next = |mut pages: watch::Receiver<Arc<str>>| async move {
        pages.changed().await.ok()?;
        let page = Arc::clone(&pages.borrow_and_update());
        let line = serde_json::to_string(&*page).ok()?;
        let event = Bytes::from(format!("data: {line}\n\n"));
        Some((Ok::<_, Infallible>(Frame::data(event)), pages))
    };
    StreamBody::new(stream::unfold(pages, next)).boxed_unsync()
}
