//! Lending a connection to hyper, for one request.
//!
//! # The reason
//!
//! hyper holds about 15 KB for a connection, idle or not: 100,000 browsers that keep a connection open
//! after loading a page would cost 1.5 GB. hyper also cannot release a connection in the middle of a
//! request, so a long poll could not wait in the slab, nor move to the shard of its session. So the
//! shard parses each head itself. hyper receives a connection only for a request to the router, and
//! only until it is answered. Between two requests the connection is a record of 40 bytes.
//!
//! # How hyper sees one request
//!
//! 1. The shard has read some bytes: a head, perhaps its body, perhaps the begin of the next request.
//!    From the head it knows how the body ends: after a length, or after the last chunk.
//! 2. `RequestBytes` counts exactly this request's bytes. `OneRequest`, the stream that hyper reads,
//!    gives hyper no others. Further bytes stay in `OneRequest::ahead`.
//! 3. After the last byte of the request a read is pending, until the answer is written. hyper has no
//!    call that says so. Two events together do: hyper drops the body when it has encoded its end
//!    (`AnswerBody`), and flushes after it has written its own buffer (`OneRequest::poll_flush`).
//! 4. Then the read returns the end of the stream. hyper ends the connection on its side, without
//!    closing the socket, and the shard adopts the socket again with the bytes that are ahead.
//!
//! Example: a client sends two requests of 80 bytes in one segment. The shard reads 160 bytes, hyper
//! gets 80, answers, and sees the end. The other 80 return with the socket and are parsed as the
//! second request, which may be an upgrade.
//!
//! 5. A client that asked for `connection: close`, and whose request was read to its end, sends nothing
//!    more. Its socket is closed immediately. Every other connection that ends waits in the slab for
//!    the client's end, because a close with unread bytes is a reset. So does a TLS client: its unread
//!    bytes may still be at its TLS task.
//!
//! # If both parsers disagree
//!
//! Two programs that disagree about the end of a request can be made to take the body of one client's
//! request as the next request. Both use `httparse` for heads here. The length of the body is decided
//! in `head.rs`, which refuses heads that give two. A connection returns for another request only
//! if hyper ended without an error, has no byte left in its buffer, and has read all bytes of the
//! request. In all other cases it ends.
//!
//! # The bounds
//!
//! `limits.sockets_max` counts lent connections too. hyper's buffer has at most 64 KiB. A pause in the
//! body of `head_timeout`, or of `slow_timeout` in reading the answer, ends the loan (`Stall`). A
//! drain waits for answers, and adds `connection: close` to them.

mod chunks;
mod one_request;
mod request_bytes;
mod stream;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Request, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::sync::Notify;
use tower::ServiceExt as _;
use watchfire_types::ShardId;

use self::one_request::{Answer, AnswerBody, OneRequest, Traffic};
use self::request_bytes::RequestBytes;
use self::stream::Stream;
use crate::counters::{CountedConnection, SocketCounters};
use crate::handoff::ClientAddress;
use crate::head::BodyLength;
use crate::limits::SocketLimits;
use crate::wire;

/// A connection on its way to hyper.
pub(crate) struct Loan {
    pub(crate) fd: OwnedFd,
    /// The bytes that were read: the request's head and all bytes that arrived with it.
    pub(crate) bytes: Vec<u8>,
    pub(crate) request: LentRequest,
    pub(crate) client: ClientAddress,
    pub(crate) counted: CountedConnection,
}

/// A request that hyper answers, as its head describes it.
pub(crate) struct LentRequest {
    pub(crate) head_len: usize,
    pub(crate) body: BodyLength,
    /// Whether the client may send another request.
    pub(crate) keeps_alive: bool,
    pub(crate) peer: SocketAddr,
}

impl LentRequest {
    /// The body of the request at the front of `bytes`, if it is complete.
    pub(crate) fn whole_body<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        match self.body {
            BodyLength::Bytes(len) => bytes[self.head_len..].get(..usize::try_from(len).ok()?),
            BodyLength::Chunked => None,
        }
    }
}

/// A connection on its way to the slab.
pub(crate) struct Returned {
    pub(crate) fd: OwnedFd,
    /// Bytes that were read after the request.
    pub(crate) bytes: Vec<u8>,
    pub(crate) client: ClientAddress,
    pub(crate) counted: CountedConnection,
    pub(crate) next: Next,
}

/// The next step of a returned connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It awaits its first request.
    First,
    /// It awaits another request.
    Another,
    /// It served its last request.
    End,
}

/// Connections from tasks of the same thread that wait to enter the slab. The queue is bounded by
/// the number of connections.
#[derive(Default)]
pub(crate) struct Returns {
    queue: RefCell<VecDeque<Returned>>,
    pub(crate) notify: Notify,
    /// While draining, responses have `connection: close`.
    pub(crate) is_draining: Cell<bool>,
    /// TLS clients, whose last bytes may be in transit after their socket left the slab.
    pub(crate) tls_now: Cell<usize>,
}

impl Returns {
    pub(crate) fn push(&self, returned: Returned) {
        self.queue.borrow_mut().push_back(returned);
        self.notify.notify_one();
    }

    pub(crate) fn pop(&self) -> Option<Returned> {
        self.queue.borrow_mut().pop_front()
    }
}

/// Lends connections of a shard to hyper.
#[derive(Clone)]
pub(crate) struct Lender {
    pub(crate) router: Router,
    pub(crate) returns: Rc<Returns>,
    pub(crate) limits: Arc<SocketLimits>,
    pub(crate) counters: Arc<SocketCounters>,
    pub(crate) shard: ShardId,
}

impl Lender {
    /// Lets hyper and the router answer one request, in a task of this thread.
    pub(crate) fn lend(&self, loan: Loan) {
        tokio::task::spawn_local(self.clone().serve(loan));
    }

    async fn serve(self, loan: Loan) {
        let Loan { fd, bytes, request, client, counted } = loan;
        let LentRequest { head_len, body, keeps_alive, peer } = request;
        let _counted = Counted::new(self.counters.clone(), self.shard);
        let stream = Stream::new(fd, client.is_pair());
        let answer = Rc::new(Answer::default());
        let request = RequestBytes::new(head_len, body);
        let traffic = Traffic::new(self.counters.clone(), self.shard);
        let io = OneRequest::new(stream, bytes, request, answer.clone(), traffic, &self.limits);
        let service = service_fn(|request: Request<Incoming>| {
            let (router, answer) = (self.router.clone(), answer.clone());
            Box::pin(self.respond(router, request, peer, answer))
        });
        let mut connection = http1::Builder::new()
            // A client that closed its sending side still gets its response.
            .half_close(true)
            .max_buf_size(64 * 1024)
            .serve_connection(TokioIo::new(io), service);
        let ended = (&mut connection).await;
        let parts = connection.into_parts();
        let io = parts.io.into_inner();
        let is_reusable = ended.is_ok() && io.is_done() && parts.read_buf.is_empty();
        let next = if is_reusable { Next::Another } else { Next::End };
        let is_answered = ended.is_ok() && io.is_answered() && parts.read_buf.is_empty();
        let may_close = !is_reusable && is_answered && !keeps_alive && !client.is_pair();
        let (stream, bytes) = io.into_parts();
        match stream.into_fd() {
            Ok(fd) if may_close && bytes.is_empty() && wire::is_all_read(&fd) => {}
            Ok(fd) => self.returns.push(Returned { fd, bytes, client, counted, next }),
            Err(error) => {
                tracing::debug!(%peer, %error, "cannot return the connection from hyper");
            }
        }
    }

    async fn respond(
        &self,
        router: Router,
        request: Request<Incoming>,
        peer: SocketAddr,
        answer: Rc<Answer>,
    ) -> Result<Response<AnswerBody>, Infallible> {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        let asked = Instant::now();
        let mut response = router.oneshot(request).await?;
        let took = u64::try_from(asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.counters.shard(self.shard).histograms.http_times.observe(took);
        if self.returns.is_draining.get() {
            let close = header::HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        Ok(response.map(|body| AnswerBody::new(body, answer)))
    }
}

/// A request that counts in `http_now`.
struct Counted(Arc<SocketCounters>, ShardId);

impl Counted {
    fn new(counters: Arc<SocketCounters>, shard: ShardId) -> Self {
        counters.shard(shard).http_requests.add(1);
        counters.shard(shard).http_now.add(1);
        Counted(counters, shard)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.shard(self.1).http_now.sub(1);
    }
}
