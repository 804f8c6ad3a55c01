//! The JWK set, and the thread that fetches it.
//!
//! It fetches the set at the start, every `jwks_refresh`, and after a token with an unknown key. Two
//! fetches are at least `jwks_retry` apart, so tokens with invented key ids cause no load. After a
//! failure the keys of the last fetch stay valid.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use watchfire_https::{
    Connector, add_headers, https_connector, run_on_thread, server_url, with_causes,
};

use crate::FetchGuard;
use crate::error::AuthError;
use crate::keys::{Key, keys_of_set};
use crate::settings::AuthSettings;

/// The largest JWK set. A hundred keys take about 100 KB.
const BODY_BYTES_MAX: usize = 1 << 20;

/// The JWK set of the settings, as it was fetched last.
pub(crate) struct JwkSet {
    uri: Uri,
    settings: AuthSettings,
    /// `None` until it was fetched.
    keys: RwLock<Option<Arc<[Key]>>>,
    /// Whether the first attempt to fetch it has ended.
    has_tried: watch::Sender<bool>,
    /// Notified when a token names a key that the set does not have.
    pub(crate) unknown_key: Notify,
}

impl JwkSet {
    /// `None`: the settings have no JWK set.
    pub fn open(settings: &AuthSettings) -> Result<Option<JwkSet>, AuthError> {
        let url = &settings.jwks_url;
        if url.is_empty() {
            return Ok(None);
        }
        Ok(Some(JwkSet {
            uri: server_url(url).ok_or_else(|| AuthError::JwksUrl { url: url.clone() })?,
            settings: settings.clone(),
            keys: RwLock::new(None),
            has_tried: watch::Sender::new(false),
            unknown_key: Notify::new(),
        }))
    }

    pub fn keys(&self) -> Option<Arc<[Key]>> {
        self.keys.read().clone()
    }

    pub fn set(&self, keys: Vec<Key>) {
        *self.keys.write() = Some(keys.into());
    }

    /// Returns when the set was fetched, or cannot be at the moment.
    pub async fn first_fetch(&self) {
        let mut has_tried = self.has_tried.subscribe();
        // The sender lives as long as this.
        has_tried.wait_for(|has_tried| *has_tried).await.ok();
    }

    /// Starts the thread, which ends when the result is dropped.
    pub fn start_fetching(self: &Arc<Self>) -> Result<FetchGuard, AuthError> {
        let set = self.clone();
        let stop = run_on_thread("jwks", async move { set.fetch_for_ever().await });
        Ok(FetchGuard { _stop: stop.map_err(AuthError::Thread)? })
    }

    async fn fetch_for_ever(&self) {
        let client = match client() {
            Ok(client) => client,
            Err(error) => {
                self.has_tried.send_replace(true);
                return tracing::error!(error, "cannot fetch auth.jwks_url");
            }
        };
        let AuthSettings { jwks_refresh, jwks_retry, jwks_timeout, .. } = self.settings;
        loop {
            let fetched = timeout(jwks_timeout, fetch(&client, self.uri.clone())).await;
            let no_response = || Err(format!("no response within {jwks_timeout:?}"));
            let until_next = match fetched.unwrap_or_else(|_| no_response()) {
                Ok(keys) => {
                    tracing::debug!(keys = keys.len(), "fetched the JWK set");
                    self.set(keys);
                    jwks_refresh.saturating_sub(jwks_retry)
                }
                Err(error) => {
                    let uri = &self.uri;
                    tracing::warn!(%uri, error, "cannot fetch the JWK set; the last keys stay valid");
                    Duration::ZERO
                }
            };
            self.has_tried.send_replace(true);
            sleep(jwks_retry).await;
            tokio::select! {
                () = sleep(until_next) => {}
                () = self.unknown_key.notified() => {}
            }
        }
    }
}

type HttpsClient = Client<Connector, Empty<Bytes>>;

fn client() -> Result<HttpsClient, String> {
    let connector = https_connector()?;
    // A connection would be idle until the next fetch.
    Ok(Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector))
}

async fn fetch(client: &HttpsClient, uri: Uri) -> Result<Vec<Key>, String> {
    let mut request = Request::get(uri).body(Empty::new()).expect("the URL was parsed");
    add_headers(request.headers_mut(), "application/json, application/jwk-set+json");
    let response = client.request(request).await.map_err(|error| with_causes(&error))?;
    if response.status() != http::StatusCode::OK {
        return Err(format!("the status is {}", response.status()));
    }
    let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| with_causes(&*error))?.to_bytes();
    keys_of_set(&body).map_err(str::to_owned)
}
