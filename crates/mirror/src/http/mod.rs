//! The HTTP side of the mirror.

mod blobs;
mod files;
mod ipfs;
mod lists;
mod manifests;
mod namespace;
mod operator;
mod reader;
mod spans;
mod web_pages;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::Service as _;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::download::Downloads;
use crate::fleet::Fleet;
use crate::images::{Access, Catalog, Flights, IPFS, ManifestFetcher};
use crate::ipfs::Ipfs;
use crate::oci::{ApiError, ErrorCode, Resource};
use crate::proxy::{Files, Origin};
use crate::settings::MirrorSettings;
use crate::status::{Kind, Requests, Source};
use crate::store::Manifests;
use crate::upstream::Upstream;

/// How long a client may take to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a stop waits for the requests that are being answered.
const STOP_GRACE: Duration = Duration::from_secs(10);
const API_VERSION: &str = "docker-distribution-api-version";
const NAMESPACE: &str = "oci-namespace";
/// Tells the client whether the answer is from the registry, the store, or other hosts of the fleet.
const SOURCE: &str = "watchfire-source";

/// A response that is due at the deadline is sent a little later.
const LAST_MOMENT: Duration = Duration::from_millis(100);

/// Questions for manifests to registries, each asked once for all clients that wait for its answer.
pub(crate) type Questions = Flights<manifests::QuestionKey, manifests::RegistryAnswer>;

/// Everything that requests need.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: MirrorSettings,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    pub(crate) origins: Vec<Arc<Origin>>,
    pub(crate) files: Arc<Files>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) manifests: Manifests,
    pub(crate) manifest_fetcher: Arc<ManifestFetcher>,
    /// The questions to registries that have no answer yet.
    pub(crate) questions: Arc<Questions>,
    pub(crate) access: Arc<Access>,
    pub(crate) downloads: Arc<Downloads>,
    pub(crate) fleet: Option<Arc<Fleet>>,
    pub(crate) ipfs: Option<Arc<Ipfs>>,
    pub(crate) requests: Requests,
    pub(crate) started_at: Instant,
}

impl Shared {
    /// How long a client waits until the registry has answered a request that is not for a blob. The
    /// first request for a repository may need a token, and a new manifest takes two requests.
    fn answer_timeout(&self) -> Duration {
        self.extend(self.settings.first_byte_timeout) * 2
    }

    /// A timeout, which is longer while this host has too much work to answer in time.
    fn extend(&self, timeout: Duration) -> Duration {
        self.fleet.as_ref().map_or(timeout, |fleet| fleet.extend(timeout))
    }
}

#[derive(Clone, Copy, Debug)]
struct ClientAddress(IpAddr);

fn without_bytes(status: StatusCode, source: &'static str, headers: HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    response.headers_mut().insert(SOURCE, HeaderValue::from_static(source));
    response
}

/// Serves until `stop` is true.
pub(crate) async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<bool>,
) {
    let permits = Arc::new(Semaphore::new(shared.settings.connections_max));
    let router = Router::new().fallback(answer).with_state(shared);
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &permits) => accepted,
            () = stopped(&mut stop) => break,
        };
        let (stream, client, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, for example: waiting is all that helps.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let router = TowerToHyperService::new(router.clone());
        let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(ClientAddress(client));
            router.call(request)
        });
        let mut stop = stop.clone();
        connections.spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            tokio::pin!(connection);
            let served = tokio::select! {
                served = connection.as_mut() => served,
                () = stopped(&mut stop) => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = served {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(permit);
        });
        while connections.try_join_next().is_some() {}
    }
    let all_ended = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(STOP_GRACE, all_ended).await;
}

/// Returns when `stop` is true, or when its sender is gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await.map(drop);
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, IpAddr, OwnedSemaphorePermit)> {
    let permit = permits.clone().acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, client) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, client.ip(), permit))
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    // The mirror reads no body: a pull has none.
    let (request, _) = request.into_parts();
    let is_head = request.method == Method::HEAD;
    let mut span = spans::of_request(&request);
    let mut response = match span.within(route(&shared, &request)).await {
        Ok(response) => response,
        Err(error) => {
            tracing::debug!(uri = %request.uri, code = error.code.as_str(), %error.message, "refused");
            error.into_response()
        }
    };
    spans::note_response(&mut span, &response);
    let headers = response.headers_mut();
    let path = request.uri.path();
    let is_file = path.starts_with("/proxy/");
    if is_file || path.starts_with("/v2") {
        // A browser that shows it does not run it as a page of the mirror.
        headers.append(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    }
    // Otherwise a file has the headers of its own server only.
    if !is_file {
        headers.insert(API_VERSION, HeaderValue::from_static("registry/2.0"));
        if let Some(namespace) = namespace::of_query(request.uri.query())
            && let Ok(namespace) = HeaderValue::from_str(&namespace)
        {
            headers.insert(NAMESPACE, namespace);
        }
    }
    if is_head {
        // An empty body would add `Content-Length: 0` to an answer whose length nobody knows.
        *response.body_mut() = match response.headers().contains_key(header::CONTENT_LENGTH) {
            true => Body::empty(),
            false => Body::from_stream(stream::empty::<std::io::Result<Bytes>>()),
        };
    }
    response
}

async fn route(shared: &Arc<Shared>, request: &Parts) -> Result<Response, ApiError> {
    let path = request.uri.path();
    match path {
        "/healthz" => return Ok("ok".into_response()),
        "/metrics" => return Ok(operator::metrics(shared, &request.headers).await),
        _ => {}
    }
    let client = client_of(request);
    web_pages::check(request, client, &shared.settings.names)?;
    if path == "/status" {
        operator::check_local(client)?;
        return Ok(operator::status(shared).await);
    }
    if !matches!(request.method, Method::GET | Method::HEAD) {
        let message = "a mirror only serves pulls: push to the registry itself";
        let allowed = HeaderValue::from_static("GET, HEAD");
        return Err(
            ApiError::new(ErrorCode::Unsupported, message).with_header(header::ALLOW, allowed)
        );
    }
    if let Some(file) = operator::page_file(path) {
        operator::check_local(client)?;
        return Ok(file);
    }
    if let Some(path) = crate::proxy::parse_path(&request.uri) {
        let answer = files::answer(shared, path?, request).await;
        return match request.method {
            Method::GET => count(shared, Kind::File, answer),
            _ => answer,
        };
    }
    if let Some(digest) = path.strip_prefix("/cids/") {
        operator::check_local(client)?;
        return ipfs::cids(shared, digest).await;
    }
    let not_found = || ApiError::new(ErrorCode::NameUnknown, "this path is not served");
    let (target, resource) = shared.resource(request).ok_or_else(not_found)??;
    if let Some(cid) = ipfs::image_of(&resource)
        && (shared.ipfs.is_some()
            || namespace::of_query(request.uri.query()).as_deref() == Some(IPFS))
    {
        return ipfs::answer(shared, &cid, &resource, request).await;
    }
    let pull = |repository| namespace::pull(target, repository);
    match resource {
        Resource::Root => {
            let json = [(header::CONTENT_TYPE, "application/json")];
            Ok((StatusCode::OK, json, "{}").into_response())
        }
        Resource::Manifest(repository, reference) => {
            let answer =
                async { manifests::answer(shared, &pull(repository)?, &reference, request).await };
            count(shared, Kind::Manifest, answer.await)
        }
        Resource::Blob(repository, digest) => {
            let answer =
                async { blobs::answer(shared, &pull(repository)?, &digest, request).await };
            match request.method {
                Method::GET => count(shared, Kind::Blob, answer.await),
                // It asks for the size only.
                _ => answer.await,
            }
        }
        Resource::Tags(repository) => {
            lists::answer(shared, &pull(repository)?, "tags/list", request).await
        }
        Resource::Referrers(repository, digest) => {
            let path = format!("referrers/{digest}");
            lists::answer(shared, &pull(repository)?, &path, request).await
        }
    }
}

fn client_of(request: &Parts) -> IpAddr {
    let client = request.extensions.get::<ClientAddress>();
    client.expect("every request has the address of its client").0
}

fn count(
    shared: &Shared,
    kind: Kind,
    answer: Result<Response, ApiError>,
) -> Result<Response, ApiError> {
    let source = answer.as_ref().ok().and_then(|response| response.headers().get(SOURCE));
    let source = match source.map(HeaderValue::as_bytes) {
        Some(b"store") => Source::Store,
        Some(b"fleet") => Source::Fleet,
        Some(_) => Source::Registry,
        None => Source::Error,
    };
    shared.requests.count(kind, source);
    answer
}
