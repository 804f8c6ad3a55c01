//! Without the feature `jwt`, no client has a token.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::claims::Grant;
use super::error::{AuthError, TokenFault};
use crate::not_built::NotBuilt;
use crate::settings::AuthSettings;

pub(crate) const TOKEN_BYTES_MAX: usize = 0;

pub(crate) enum Auth {}

impl Auth {
    pub fn open(settings: &AuthSettings) -> Result<Option<Auth>, AuthError> {
        match settings.is_on() {
            true => Err(NotBuilt { setting: "auth", feature: "jwt" }.into()),
            false => Ok(None),
        }
    }

    pub fn now() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    pub fn expiry_notice(&self) -> Duration {
        match *self {}
    }

    pub fn verify(&self, _: &str, _: Duration) -> Result<Grant, TokenFault> {
        match *self {}
    }

    pub fn has_keys(&self) -> bool {
        match *self {}
    }

    pub async fn first_fetch(&self) {
        match *self {}
    }
}

pub(crate) enum JwksThread {}

impl JwksThread {
    pub fn start(auth: &Arc<Auth>) -> Result<Option<Self>, AuthError> {
        match **auth {}
    }
}
