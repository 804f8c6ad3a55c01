//! The sockets of the operator's listener, the thread that serves them, and the bounds of their connections.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use watchfire_types::VitalThread;

use axum::extract::ConnectInfo;
use axum::middleware::from_fn_with_state;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;
use watchfire::internal::TOKEN_BYTES_MIN;
use watchfire_sockets::small_listener::{self, serve_latest};

use super::access::Access;
use super::guard::{Guard, LocalAddress, guard};
use super::settings::AdminSettings;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;
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

/// Why the operator's listener cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    #[error(
        "cannot listen on {address} of admin.listen: {cause}; choose another address, or set admin.listen to [] for no metrics and admin calls"
    )]
    Listen { address: SocketAddr, cause: io::Error },
    #[error(
        "cannot listen on {address} of admin.listen: other machines can reach it and there is no admin.token; set a token of at least {TOKEN_BYTES_MIN} bytes, or listen on a loopback address such as 127.0.0.1:{}",
        address.port()
    )]
    NoToken { address: SocketAddr },
    #[error("cannot use admin.token: it must have at least {TOKEN_BYTES_MIN} bytes")]
    ShortToken,
    /// An inherited descriptor, a thread or an event loop.
    #[error("cannot start the admin listener: {0}")]
    System(io::Error),
}

impl From<io::Error> for AdminError {
    fn from(cause: io::Error) -> Self {
        AdminError::System(cause)
    }
}

/// Checks the settings without opening anything.
pub(crate) fn check(settings: &AdminSettings) -> Result<(), AdminError> {
    if (1..TOKEN_BYTES_MIN).contains(&settings.token.len()) {
        return Err(AdminError::ShortToken);
    }
    let is_open = |address: &&SocketAddr| !address.ip().is_loopback();
    match settings.listen.iter().find(is_open) {
        Some(&address) if settings.token.is_empty() => Err(AdminError::NoToken { address }),
        _ => Ok(()),
    }
}

/// Listens on the addresses of the settings. If the default address cannot be used, there is a warning
/// and no listener: another server on the machine may have it.
///
/// A successor shares the addresses with the server that it replaces, until that one ends.
pub(crate) fn open_listeners(
    settings: &AdminSettings,
    is_successor: bool,
) -> Result<Vec<TcpListener>, AdminError> {
    check(settings)?;
    let is_default = settings.listen == AdminSettings::default().listen;
    let mut listeners = Vec::new();
    for &address in &settings.listen {
        match listen(address, is_successor) {
            Ok(listener) => listeners.push(listener),
            Err(error) if is_default => {
                tracing::warn!(
                    %address, %error,
                    "cannot open the admin listener; running without metrics, admin calls and an \
                     API on it. Set admin.listen to another address, or to [] for none"
                );
            }
            Err(cause) => return Err(AdminError::Listen { address, cause }),
        }
    }
    Ok(listeners)
}

/// Listens on an address that no other server uses, except one that this process replaces.
fn listen(address: SocketAddr, is_successor: bool) -> io::Result<TcpListener> {
    let socket = small_listener::listen(address, is_successor, BACKLOG)?;
    // A successor may share the address from now on.
    socket.set_reuse_port(true)?;
    Ok(socket.into())
}

/// Answers the operator on a thread of its own, until it is dropped.
pub(crate) struct AdminServer {
    /// Dropping it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl AdminServer {
    /// Serves `routes` to the requests that the rules allow. Without a socket, there is no thread.
    /// With `serves_api`, the requests of the API have keys of their own instead of the token.
    pub fn start(
        listeners: Vec<TcpListener>,
        routes: Router,
        access: &Arc<Access>,
        serves_api: bool,
    ) -> Result<Self, AdminError> {
        if listeners.is_empty() {
            return Ok(AdminServer { stop: None, thread: None });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut serving = Vec::new();
        for listener in listeners {
            let address = listener.local_addr()?;
            listener.set_nonblocking(true)?;
            let _inside = runtime.enter();
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let rules = Arc::new(Guard { address, access: access.clone(), serves_api });
            serving.push((listener, routes.clone().layer(from_fn_with_state(rules, guard))));
        }
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("admin".into()).spawn(move || {
            runtime.block_on(async {
                let mut tasks = JoinSet::new();
                for (listener, router) in serving {
                    tasks.spawn(async move {
                        let _vital = VitalThread::enter("admin");
                        accept(listener, router).await;
                    });
                }
                // Nothing is sent: the sender's drop ends the wait.
                stopped.await.ok();
            });
        })?;
        Ok(AdminServer { stop: Some(stop), thread: Some(thread) })
    }

    pub fn stop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Accepts and serves connections until it is dropped.
async fn accept(listener: tokio::net::TcpListener, router: Router) {
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
