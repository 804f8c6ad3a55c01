//! Listeners beside the event loops, for a few connections at a time: the operator's, and the one that
//! redirects plain HTTP.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

/// Pause after a failed accept, such as without free descriptors, so that repeated failures do not
/// use a whole core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens on an address. `is_shared`: together with other processes (`SO_REUSEPORT`), if they
/// allow it, too. `backlog`: the connections that may wait to be accepted.
pub fn listen(address: SocketAddr, is_shared: bool, backlog: i32) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(is_shared)?;
    // Accepted sockets inherit it: no part of an answer waits for an acknowledgement of another.
    socket.set_tcp_nodelay(true)?;
    if address.is_ipv6() {
        // `[::]` would also cover IPv4, and conflict with an IPv4 address in the list.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(socket)
}

/// Accepts and serves connections until it is dropped, which ends them.
///
/// When there are `connections_max`, a new one closes the oldest. So clients that keep connections
/// open cannot keep others out.
pub async fn serve_latest<F>(
    listener: TcpListener,
    connections_max: usize,
    serve: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let mut open = VecDeque::<AbortHandle>::with_capacity(connections_max);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!(%error, address = ?listener.local_addr(), "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        while tasks.try_join_next().is_some() {}
        open.retain(|task| !task.is_finished());
        if open.len() >= connections_max
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        open.push_back(tasks.spawn(serve(stream)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accepted_connection_sends_at_once() {
        let socket = listen(SocketAddr::from(([127, 0, 0, 1], 0)), false, 1).unwrap();
        socket.set_nonblocking(false).unwrap();
        let listener = std::net::TcpListener::from(socket);
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(listener.accept().unwrap().0.nodelay().unwrap());
    }
}
