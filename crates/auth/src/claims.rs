//! The claims of a token.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::TokenFault;
use crate::grant::{
    ChannelClaims, Grant, NumericDate, default_id, is_name, is_small, null_as_default, object,
    patterns,
};
use crate::settings::AuthSettings;

impl Grant {
    /// Checks the claims of a token whose signature is valid. `now` is since the Unix epoch.
    pub(crate) fn of(
        claims: Claims,
        settings: &AuthSettings,
        now: Duration,
    ) -> Result<Grant, TokenFault> {
        let Claims { sub, exp, nbf, iss, aud, channels, meta, id } = claims;
        let is_issuer = settings.issuer.is_empty() || iss.as_ref() == Some(&settings.issuer);
        let is_audience = settings.audience.is_empty() || aud.contains(&settings.audience);
        let begins_at = nbf.map(|date| date.0).unwrap_or_default();
        let has_begun = begins_at <= now.saturating_add(settings.leeway);
        let is_id = id.as_deref().is_none_or(is_name);
        let id = id.unwrap_or_else(|| default_id(&sub));
        let meta = Value::Object(meta.unwrap_or_default());
        let expires_at = exp.0.saturating_add(settings.leeway);
        // An expired token is told from an invalid one only if nothing else is wrong with it.
        for (is_met, fault) in [
            (is_name(&sub) && is_id, TokenFault::Subject),
            (is_issuer, TokenFault::Issuer),
            (is_audience, TokenFault::Audience),
            (has_begun, TokenFault::NotYetValid),
            (is_small(&meta), TokenFault::MetaTooLarge),
            (expires_at > now, TokenFault::Expired),
        ] {
            if !is_met {
                return Err(fault);
            }
        }
        let (join, publish) = (patterns(channels.join)?, patterns(channels.publish)?);
        Ok(Grant { subject: sub.into(), id: id.into(), expires_at, join, publish, meta })
    }
}

/// The claims that the server reads. It ignores others.
#[derive(Debug, Deserialize)]
pub(crate) struct Claims {
    sub: String,
    exp: NumericDate,
    nbf: Option<NumericDate>,
    iss: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    aud: Audience,
    #[serde(default, deserialize_with = "null_as_default")]
    channels: ChannelClaims,
    #[serde(default, deserialize_with = "object")]
    meta: Option<Map<String, Value>>,
    id: Option<String>,
}

/// One audience or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Default for Audience {
    fn default() -> Self {
        Audience::Several(Vec::new())
    }
}

impl Audience {
    fn contains(&self, wanted: &str) -> bool {
        match self {
            Audience::One(audience) => audience == wanted,
            Audience::Several(audiences) => audiences.iter().any(|audience| audience == wanted),
        }
    }
}
