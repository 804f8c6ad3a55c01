//! The thread that fetches the JWK set.
//!
//! It fetches the set at the start, every `jwks_refresh`, and after a token with an unknown key. Two
//! fetches are at least `jwks_retry` apart, so tokens with invented key ids cause no load. After a
//! failure the keys of the last fetch stay valid.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http::Uri;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::error::AuthError;
use super::keys::{Key, keys_of_set};
use super::verifier::{Auth, jwks_uri};
use crate::error_text::with_causes;
use crate::https_connector::{Connector, https_connector};

/// The largest JWK set. A hundred keys take about 100 KB.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Fetches the JWK set until it is dropped.
pub(crate) struct JwksThread {
    _stop: oneshot::Sender<()>,
}

impl JwksThread {
    /// `None`: the settings have no JWK set.
    pub fn start(auth: &Arc<Auth>) -> Result<Option<Self>, AuthError> {
        let Some(uri) = jwks_uri(&auth.settings.jwks_url)? else { return Ok(None) };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(AuthError::Thread)?;
        let (stop, stopped) = oneshot::channel::<()>();
        let auth = auth.clone();
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = fetch_for_ever(&auth, &uri) => {}
                    // An error means that the handle was dropped.
                    _ = stopped => {}
                }
            });
            // Does not wait for a name that is being resolved.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("jwks".into()).spawn(run).map_err(AuthError::Thread)?;
        Ok(Some(JwksThread { _stop: stop }))
    }
}

async fn fetch_for_ever(auth: &Auth, uri: &Uri) {
    let client = match client() {
        Ok(client) => client,
        Err(error) => {
            auth.has_tried.send_replace(true);
            return tracing::error!(error, "cannot fetch auth.jwks_url");
        }
    };
    let settings = &auth.settings;
    loop {
        let fetched = timeout(settings.jwks_timeout, fetch(&client, uri.clone())).await;
        let no_response = || Err(format!("no response within {:?}", settings.jwks_timeout));
        let until_next = match fetched.unwrap_or_else(|_| no_response()) {
            Ok(keys) => {
                tracing::debug!(keys = keys.len(), "fetched the JWK set");
                auth.set_fetched(keys);
                settings.jwks_refresh.saturating_sub(settings.jwks_retry)
            }
            Err(error) => {
                tracing::warn!(%uri, error, "cannot fetch the JWK set; the last keys stay valid");
                Duration::ZERO
            }
        };
        auth.has_tried.send_replace(true);
        sleep(settings.jwks_retry).await;
        tokio::select! {
            () = sleep(until_next) => {}
            () = auth.unknown_key.notified() => {}
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
    let response = client.get(uri).await.map_err(|error| with_causes(&error))?;
    if response.status() != http::StatusCode::OK {
        return Err(format!("the status is {}", response.status()));
    }
    let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| with_causes(&*error))?.to_bytes();
    keys_of_set(&body).map_err(str::to_owned)
}
