//! The connections of one operator's listener: how many, and for how long.

use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::guard::LocalAddress;
use crate::small_listener::serve_latest;

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

/// Accepts and serves connections until it is dropped.
pub(super) async fn accept(listener: TcpListener, router: Router) {
    serve_latest(listener, CONNECTIONS_MAX, |stream| serve(stream, router.clone())).await;
}

async fn serve(stream: TcpStream, router: Router) {
    let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else { return };
    let router = router.layer(Extension(LocalAddress(local))).layer(Extension(ConnectInfo(peer)));
    let service = TowerToHyperService::new(router);
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
