//! Sockets and long polls through an application's own HTTP server.
//!
//! Each request goes to the event loops over a pair of UNIX sockets. For a WebSocket, a task copies
//! between the pair and the upgraded connection, as it does for TLS.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use http::{HeaderValue, StatusCode, Version, header};
use hyper::client::conn::http1;
use hyper::upgrade::{OnUpgrade, on};
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio::net::UnixStream;
use watchfire_sockets::Adopter;

use super::{EmbeddedServer, open_pair};
use crate::shard::STREAM_PATH;

impl EmbeddedServer {
    /// The routes of sockets, `/socket/websocket` and `/socket/longpoll` (see `socket.mount`), and of event streams,
    /// `/api/stream`, for an axum application. They also work below a path, with [`Router::nest`], and behind the
    /// application's own TLS.
    ///
    /// Each socket costs a task, two buffers of 8 KiB and three descriptors beside what it costs
    /// otherwise. Use [`accept`](EmbeddedServer::accept) for many sockets.
    ///
    /// The address of a client is that of [`ConnectInfo`], when the application provides it
    /// (`into_make_service_with_connect_info`). Without it, every client has the address 127.0.0.1,
    /// and no limit for addresses applies.
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use watchfire::{Server, Settings};
    ///
    /// let channels = Server::new(Settings::default()).embed().unwrap();
    /// let application: Router = Router::new()
    ///     .route("/hello", get(async || "hello"))
    ///     .nest("/realtime", channels.router());
    /// ```
    pub fn router(&self) -> Router {
        Router::new()
            .route(&format!("{}/websocket", self.socket_path), any(forward))
            .route(&format!("{}/longpoll", self.socket_path), any(forward))
            .route(STREAM_PATH, any(forward))
            .with_state(self.server.adopter())
    }
}

async fn forward(State(adopter): State<Adopter>, request: Request) -> Response {
    match try_forward(&adopter, request).await {
        Ok(response) => response,
        Err(error) => {
            tracing::debug!(%error, "cannot forward a request to the event loops");
            (StatusCode::SERVICE_UNAVAILABLE, "The server is too busy.").into_response()
        }
    }
}

async fn try_forward(adopter: &Adopter, mut request: Request) -> io::Result<Response> {
    let from = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let from = from.map_or((Ipv4Addr::LOCALHOST, 0).into(), |ConnectInfo(from)| *from);
    let ours = open_pair(adopter, from)?;
    ours.set_nonblocking(true)?;
    let ours = TokioIo::new(UnixStream::from_std(ours)?);
    let (mut sender, connection) = http1::handshake(ours).await.map_err(io::Error::other)?;
    tokio::spawn(connection.with_upgrades());

    let client = request.extensions_mut().remove::<OnUpgrade>();
    let request = to_http1(request);
    let mut response = sender.send_request(request).await.map_err(io::Error::other)?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let server = on(&mut response);
        tokio::spawn(async move {
            let Some(client) = client else { return };
            if let (Ok(client), Ok(server)) = tokio::join!(client, server) {
                let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
                // Either side may end at any time.
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
    Ok(response.map(Body::new))
}

/// The request as HTTP/1.1, with the host of its client.
fn to_http1(request: Request) -> Request {
    let (mut parts, body) = request.into_parts();
    let authority = parts.uri.authority().map(|authority| authority.as_str().to_owned());
    if !parts.headers.contains_key(header::HOST)
        && let Some(host) = authority.and_then(|host| HeaderValue::try_from(host).ok())
    {
        parts.headers.insert(header::HOST, host);
    }
    parts.uri =
        parts.uri.path_and_query().cloned().unwrap_or_else(|| "/".parse().expect("a path")).into();
    parts.version = Version::HTTP_11;
    Request::from_parts(parts, body)
}
