//! The connections of one operator's listener: how many, and for how long.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::guard::LocalAddress;

/// Connections of one listener. When there are as many, a new one closes the oldest. So the
/// operator gets an answer while others keep connections open.
const CONNECTIONS_MAX: usize = 64;
/// How long a connection may wait for the rest of a request's head, or for the next request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a connection may last. After it, the running response is the last one.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(120);
/// How long the last response may take.
const LAST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// A longer head of a request gets 431.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Pause after a failed accept, so that repeated failures do not use a whole core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts and serves connections until it is dropped.
pub(super) async fn accept(listener: TcpListener, router: Router) {
    let mut tasks = JoinSet::new();
    let mut open = VecDeque::<AbortHandle>::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection to the admin listener");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        while tasks.try_join_next().is_some() {}
        open.retain(|task| !task.is_finished());
        if open.len() >= CONNECTIONS_MAX
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        if let Ok(local) = stream.local_addr() {
            open.push_back(tasks.spawn(serve(stream, local, router.clone())));
        }
    }
}

async fn serve(stream: TcpStream, local: SocketAddr, router: Router) {
    let service = TowerToHyperService::new(router.layer(Extension(LocalAddress(local))));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    if timeout(CONNECTION_TIME_MAX, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        timeout(LAST_RESPONSE_TIMEOUT, connection).await.ok();
    }
}
