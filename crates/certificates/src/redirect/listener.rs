//! A listener whose clients cannot exhaust the server.
//!
//! A connection serves one request and then ends. It has a deadline, a small buffer, and a place
//! among at most [`CONNECTIONS_MAX`]. When all places are taken, the oldest connection is closed, so
//! clients that send slowly cannot keep others out.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::rules::Redirects;
use watchfire_sockets::small_listener::{listen, serve_latest};

/// Connections of one listener at a time.
const CONNECTIONS_MAX: usize = 100;

/// The longest time of one connection, from its first byte to its last.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 8192;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A listener for plain HTTP.
pub(crate) struct RedirectListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl RedirectListener {
    /// Listens, inside a tokio runtime. `is_shared`: with `SO_REUSEPORT`, for several processes.
    pub fn open(address: SocketAddr, is_shared: bool) -> io::Result<Self> {
        let listener = TcpListener::from_std(listen(address, is_shared, BACKLOG)?.into())?;
        let address = listener.local_addr()?;
        Ok(RedirectListener { listener, address })
    }

    /// Checks that no other server listens on an address.
    pub fn check(address: SocketAddr) -> io::Result<()> {
        listen(address, false, BACKLOG).map(drop)
    }

    /// The address, with the port that was bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers forever.
    pub async fn run(self, redirects: Arc<Redirects>) {
        tracing::info!(address = %self.address, "redirecting plain HTTP to HTTPS");
        serve_latest(self.listener, CONNECTIONS_MAX, |stream| serve(stream, redirects.clone()))
            .await;
    }
}

async fn serve(stream: TcpStream, redirects: Arc<Redirects>) {
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let (head, _) = request.into_parts();
        let redirects = redirects.clone();
        async move { Ok::<_, Infallible>(redirects.answer(&head)) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // Errors are the client's.
    let _ = timeout(CONNECTION_TIMEOUT, connection).await;
}
