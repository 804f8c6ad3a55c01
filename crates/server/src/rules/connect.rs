//! Tokens in requests to connect, and the addresses of their clients.

use std::sync::Arc;

use watchfire_auth::{self as auth, Auth, SocketToken};

use crate::channel_api::{Connect, OnConnect, Refused};

/// The parameter with the token, for clients that cannot send it in the subprotocol.
const PARAMETER: &str = "token";

/// Verifies the token of a request to connect, if it has one, before the application's own rule. A
/// socket without a token is accepted: it may join the topics that need none.
pub(super) fn with_tokens(auth: Arc<dyn Auth>, application: OnConnect) -> OnConnect {
    Arc::new(move |connect: &Connect<'_>| {
        let token = connect.auth_token.or_else(|| connect.params.text(PARAMETER));
        let token = token.filter(|token| !token.is_empty());
        let grant = token.map(|token| auth.verify(token, auth::now())).transpose();
        let grant = grant.map_err(|fault| {
            let reason = fault.refusal().reason();
            tracing::debug!(from = %connect.from, fault = fault.name(), reason, "token refused");
            Refused
        })?;
        let mut connected = application(connect)?;
        if let Some(grant) = grant {
            connected.id.get_or_insert_with(|| grant.id.clone().into());
            connected.attach_token(Arc::new(SocketToken::new(grant)));
        }
        Ok(connected)
    })
}

/// Keeps the client's address for requests to the backend.
pub(super) fn with_addresses(others: OnConnect) -> OnConnect {
    Arc::new(move |connect: &Connect<'_>| {
        let mut connected = others(connect)?;
        connected.attach_address(connect.from.ip());
        Ok(connected)
    })
}
