use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use watchfire_types::{Instant, VitalThread};

use super::allowance::{Allowance, StunLimits};
use super::counters::{StunCounters, count};
use super::message::BindingRequest;
use super::steering::steer;

/// Bytes read of a datagram. A longer one is cut, so it fails to parse.
const DATAGRAM_BYTES_MAX: usize = 1_500;
/// Pause after a socket error, so that repeated errors do not use a whole core.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Answers Binding requests on some UDP sockets, on a thread of its own, until it is dropped.
pub struct Responder {
    addresses: Vec<SocketAddr>,
    counters: Arc<StunCounters>,
    /// Dropping it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot answer STUN on {address}: {cause}")]
    Address { address: SocketAddr, cause: io::Error },
    #[error("cannot answer STUN: {0}")]
    System(io::Error),
}

impl From<io::Error> for StartError {
    fn from(cause: io::Error) -> Self {
        StartError::System(cause)
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Responder {
    /// Answers on these addresses; port 0 takes a free port. With `is_shared`, other processes of
    /// the same user can bind them too (`SO_REUSEPORT`), each with the same `limits`.
    pub fn start(
        addresses: &[SocketAddr],
        is_shared: bool,
        limits: &StunLimits,
    ) -> Result<Self, StartError> {
        let has_ipv4 = addresses.iter().any(SocketAddr::is_ipv4);
        let mut sockets = Vec::new();
        let mut bound = Vec::new();
        for &address in addresses {
            let failed = |cause| StartError::Address { address, cause };
            let socket = match open(address, has_ipv4, is_shared) {
                // A machine without IPv6 answers on the other addresses.
                Err(error) if has_ipv4 && address.is_ipv6() && is_family_missing(&error) => {
                    tracing::info!(%address, "STUN is not answered over IPv6: this machine has none");
                    continue;
                }
                opened => opened.map_err(failed)?,
            };
            if is_shared
                && limits.processes > 1
                && let Err(error) = steer(&socket, limits.processes)
            {
                tracing::warn!(
                    %address,
                    %error,
                    "cannot direct STUN requests by their address; each process limits the answers \
                     to an address separately"
                );
            }
            bound.push(socket.local_addr().map_err(failed)?);
            sockets.push(socket);
        }
        let counters = Arc::new(StunCounters::default());
        let shared = Arc::new(Shared {
            counters: counters.clone(),
            allowance: Mutex::new(Allowance::new(limits)),
            epoch: std::time::Instant::now(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let sockets = {
            let _inside = runtime.enter();
            sockets.into_iter().map(UdpSocket::from_std).collect::<io::Result<Vec<_>>>()?
        };
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("stun".into()).spawn(move || {
            runtime.block_on(async {
                let mut serving = JoinSet::new();
                for socket in sockets {
                    let shared = shared.clone();
                    serving.spawn(async move {
                        let _vital = VitalThread::enter("stun");
                        serve(socket, shared).await;
                    });
                }
                // Nothing is sent: the sender's drop ends the wait.
                stopped.await.ok();
            });
        })?;
        Ok(Responder { addresses: bound, counters, stop: Some(stop), thread: Some(thread) })
    }

    /// The bound addresses, in the order of the arguments of [`Responder::start`].
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub fn counters(&self) -> Arc<StunCounters> {
        self.counters.clone()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// The state that the sockets of a responder share.
struct Shared {
    counters: Arc<StunCounters>,
    allowance: Mutex<Allowance>,
    epoch: std::time::Instant,
}

impl Shared {
    /// The answer; `None` when the datagram is not answered.
    fn answer(&self, datagram: &[u8], from: SocketAddr) -> Option<Vec<u8>> {
        let Ok(request) = BindingRequest::parse(datagram) else {
            count(&self.counters.unreadable);
            return None;
        };
        let now = Instant::ZERO + self.epoch.elapsed();
        let mut allowance = self.allowance.lock();
        if !allowance.take(now, from.ip()) {
            count(&self.counters.over_rate);
            return None;
        }
        Some(request.answer(from))
    }
}

async fn serve(socket: UdpSocket, shared: Arc<Shared>) {
    let mut datagram = [0; DATAGRAM_BYTES_MAX];
    loop {
        let (bytes, from) = match socket.recv_from(&mut datagram).await {
            Ok(received) => received,
            Err(error) => {
                tracing::debug!(%error, "cannot receive a datagram");
                tokio::time::sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        let Some(answer) = shared.answer(&datagram[..bytes], from) else { continue };
        // Counted before sending, so that a client with the answer finds it counted.
        count(&shared.counters.answers);
        if !from.ip().to_canonical().is_loopback() {
            count(&shared.counters.outside);
        }
        // A full send buffer drops the answer, as the network could; the client retries.
        if socket.try_send_to(&answer, from).is_err() {
            count(&shared.counters.unsent);
        }
    }
}

/// Whether the system does not support addresses of this family.
fn is_family_missing(error: &io::Error) -> bool {
    error.raw_os_error() == Some(nix::errno::Errno::EAFNOSUPPORT as i32)
}

fn open(address: SocketAddr, has_ipv4: bool, is_shared: bool) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_port(is_shared)?;
    if address.is_ipv6() {
        // `[::]` alone includes IPv4. Beside an IPv4 address it would conflict.
        socket.set_only_v6(has_ipv4)?;
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}
