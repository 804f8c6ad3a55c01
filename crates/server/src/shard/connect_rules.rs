//! Which clients may connect.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use watchfire_channels::Serializer;
use watchfire_channels::handshake::{OriginPolicy, Params, is_local_host};
use watchfire_hooks::{ConnectBody, ConnectVerdict, Hooks, Question, Slot};

use super::refused_origins::RefusedOrigins;
use super::spans::connect_span;
use crate::addresses::{Addresses, CountedAddress};
use crate::channel_api::{
    Connect, Connected, Crash, Endpoint, Guest, NoGuest, OnConnect, Refused, caught,
};
use crate::feature::Part;
use crate::hooks::ConnectReply;
use crate::metrics::Metrics;
use crate::own_client::OwnClientKey;
use crate::settings::Hook;

/// Why a client may not connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectRefusal {
    /// The query cannot be parsed.
    InvalidQuery,
    /// The client's site has an origin that may not connect.
    Origin,
    /// The client would be a guest, and there are too many guests.
    TooManyGuests,
    /// The client requested only subprotocols that the server does not have.
    Subprotocol,
    /// The client requested a serializer that does not exist.
    Version,
    /// The application refused the client.
    Application(Refused),
    /// The parameters are too large to ask the backend about them.
    ParamsTooLarge,
    /// The backend refused the client.
    Backend,
    /// The backend cannot answer.
    NoBackend,
    /// The client's address has as many sockets as it may have.
    TooManySockets,
}

impl ConnectRefusal {
    /// The reason in metrics.
    pub fn reason(self) -> &'static str {
        match self {
            ConnectRefusal::InvalidQuery => "connect_query",
            ConnectRefusal::Origin => "connect_origin",
            ConnectRefusal::TooManyGuests => "guests_max",
            ConnectRefusal::Subprotocol => "connect_subprotocol",
            ConnectRefusal::Version => "connect_version",
            ConnectRefusal::Application(_) => "connect_application",
            ConnectRefusal::ParamsTooLarge => "connect_params",
            ConnectRefusal::Backend => "connect_backend",
            ConnectRefusal::NoBackend => "connect_backend_unavailable",
            ConnectRefusal::TooManySockets => "sockets_per_address",
        }
    }

    pub(super) fn status(self) -> u16 {
        match self {
            ConnectRefusal::InvalidQuery => 400,
            ConnectRefusal::Application(refused) => refused.status,
            ConnectRefusal::ParamsTooLarge => 414,
            ConnectRefusal::NoBackend | ConnectRefusal::TooManyGuests => 503,
            ConnectRefusal::TooManySockets => 429,
            _ => 403,
        }
    }

    pub(super) fn body(self) -> &'static str {
        match self {
            ConnectRefusal::TooManySockets => {
                "too many sockets from this address; close some, or wait\n"
            }
            ConnectRefusal::TooManyGuests => "too many guests of other sites; try again later\n",
            ConnectRefusal::Application(refused) => refused.reason,
            _ => "",
        }
    }
}

/// [`ConnectRequest::transport`] of a WebSocket.
pub(super) const WEBSOCKET: &str = "websocket";

/// A client's request to connect.
pub(crate) struct ConnectRequest<'a> {
    /// `websocket`, `longpoll` or `events`, as the backend gets it.
    pub transport: &'static str,
    pub query: &'a str,
    pub origin: Option<&'a str>,
    pub host: &'a str,
    pub auth_token: Option<&'a str>,
    pub from: SocketAddr,
}

/// The origin of a request. Several origins, or one that is not text, are `""`, which is the origin
/// of no site: a request is without an origin only if it has no such header.
pub(crate) fn origin_of<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<&'a str> {
    let origin = values.next()?;
    match values.next() {
        None => Some(std::str::from_utf8(origin).unwrap_or("")),
        Some(_) => Some(""),
    }
}

/// A client that may connect, if the backend does not refuse it.
pub(crate) struct Admitted {
    pub serializer: Serializer,
    pub connected: Connected,
    pub counted: CountedAddress,
    /// `None`: the backend is not asked.
    pub question: Option<ConnectQuestion>,
}

/// A question about a client, with a place among those that wait.
pub(crate) struct ConnectQuestion {
    body: String,
    slot: Slot,
}

/// The backend that decides about clients.
pub(crate) struct ConnectHook {
    pub hooks: Arc<dyn Hooks>,
    pub endpoint: Endpoint,
    /// The server does not ask the backend about its own clients.
    pub own_client_key: OwnClientKey,
}

/// Decides which clients may connect.
pub(crate) struct ConnectRules {
    pub origins: OriginPolicy,
    /// The host and port of `server.public_url`, with which origins are compared instead of the
    /// request's.
    pub public_host: Option<String>,
    /// Whether proxies name clients in the PROXY protocol.
    pub has_proxy_protocol: bool,
    pub refused_origins: RefusedOrigins,
    /// They are asked about guests.
    pub parts: Vec<Arc<dyn Part>>,
    pub on_connect: OnConnect,
    /// `None`: no backend is asked about clients.
    pub hook: Option<ConnectHook>,
    pub addresses: Arc<Addresses>,
    pub metrics: Arc<Metrics>,
}

impl ConnectRules {
    /// Decides whether a client may connect, with the checks in Phoenix's order.
    pub fn admit(&self, request: &ConnectRequest<'_>) -> Result<Admitted, ConnectRefusal> {
        let mut span = connect_span(request.transport, request.query);
        self.check(request).inspect_err(|refusal| {
            span.fail(refusal.reason());
            self.note_refusal(*refusal, request.from.ip());
        })
    }

    /// Asks the backend about a client. The decision comes to `to`, for
    /// [`ConnectRules::accept`].
    pub fn ask(&self, question: ConnectQuestion, to: ConnectReply) {
        let ConnectQuestion { body, slot } = question;
        if let Some(hook) = &self.hook {
            let recipient = to.recipient(&hook.endpoint);
            hook.hooks.ask(Question { hook: Hook::Connect, body, slot, recipient });
        }
    }

    /// Gives a client the identity of the backend's decision, if it may connect.
    pub fn accept(
        &self,
        verdict: ConnectVerdict,
        mut connected: Connected,
    ) -> Result<Connected, ConnectRefusal> {
        let refusal = match verdict {
            ConnectVerdict::Allowed(token) => {
                if let Some(token) = token {
                    connected.id = Some(token.grant().id.clone().into());
                    connected.data_mut().token = Some(token);
                }
                return Ok(connected);
            }
            ConnectVerdict::Denied => ConnectRefusal::Backend,
            ConnectVerdict::Unavailable => ConnectRefusal::NoBackend,
        };
        self.metrics.refused(refusal.reason());
        Err(refusal)
    }

    pub fn note_refusal(&self, refusal: ConnectRefusal, from: IpAddr) {
        self.metrics.refused(refusal.reason());
        tracing::debug!(%from, reason = refusal.reason(), "connect refused");
    }

    /// Whether a site of this origin may connect, by a request to this host. Logs a refusal.
    pub fn allows_origin(&self, origin: Option<&str>, host: &str, from: SocketAddr) -> bool {
        let own_host = self.own_host(host, from);
        let allows = self.origins.allows(origin, own_host.unwrap_or(""));
        if let (false, Some(origin)) = (allows, origin) {
            self.refused_origins.log(origin, own_host.unwrap_or(host));
        }
        allows
    }

    /// The host with which origins are compared. `None`: the domain of the request is somebody's who gave it the
    /// address of the client's own machine (DNS rebinding).
    fn own_host<'a>(&'a self, requested: &'a str, from: SocketAddr) -> Option<&'a str> {
        if let Some(host) = &self.public_host {
            return Some(host);
        }
        let is_rebound = !self.is_behind_proxy(from)
            && from.ip().to_canonical().is_loopback()
            && !is_local_host(requested);
        (!is_rebound).then_some(requested)
    }

    /// Admits the client of a site that may not connect, if it is a guest. `None`: its site may connect.
    fn admit_guest(
        &self,
        request: &ConnectRequest<'_>,
    ) -> Result<Option<Box<dyn Guest>>, ConnectRefusal> {
        let own_host = self.own_host(request.host, request.from);
        let allows = self.origins.allows(request.origin, own_host.unwrap_or(""));
        let (false, Some(origin)) = (allows, request.origin) else { return Ok(None) };
        if own_host.is_some() && request.transport == WEBSOCKET {
            for part in &self.parts {
                match part.admit_guest(origin) {
                    Ok(guest) => return Ok(Some(guest)),
                    Err(NoGuest::Origin) => {}
                    Err(NoGuest::Full) => {
                        self.refused_origins.log_guest(origin);
                        return Err(ConnectRefusal::TooManyGuests);
                    }
                }
            }
        }
        self.refused_origins.log(origin, own_host.unwrap_or(request.host));
        Err(ConnectRefusal::Origin)
    }

    /// Whether a client of this origin is a guest, or would be one while fewer are here. A WebSocket of it can
    /// fail for a reason that passes, so the client must not take its origin for refused.
    pub fn may_be_guest(&self, origin: &str, host: &str, from: SocketAddr) -> bool {
        let admits =
            |part: &Arc<dyn Part>| !matches!(part.admit_guest(origin), Err(NoGuest::Origin));
        self.own_host(host, from).is_some() && self.parts.iter().any(admits)
    }

    /// Whether a proxy has named the client. A header has no port ([`ForwardedClient`](crate::proxies::ForwardedClient)).
    fn is_behind_proxy(&self, from: SocketAddr) -> bool {
        self.has_proxy_protocol || from.port() == 0
    }

    fn check(&self, request: &ConnectRequest<'_>) -> Result<Admitted, ConnectRefusal> {
        let params = Params::parse(request.query).map_err(|_| ConnectRefusal::InvalidQuery)?;
        let guest = self.admit_guest(request)?;
        let serializer = params.serializer().map_err(|_| ConnectRefusal::Version)?;
        let connect =
            Connect { params: &params, auth_token: request.auth_token, from: request.from };
        // The application and the backend decide about a guest too: they may require a token, or deny an
        // address. What they say of its identity opens no topic to it.
        let mut connected = self.ask_application(&connect)?;
        if guest.is_some() {
            connected.data_mut().guest = guest;
        }
        let question = self.question(request, &params, &connected)?;
        let counted = self.addresses.admit_for_now(request.from.ip());
        let counted = counted.map_err(|_| ConnectRefusal::TooManySockets)?;
        Ok(Admitted { serializer, connected, counted, question })
    }

    /// Asks the application's rule about a client. A rule that panics refuses.
    fn ask_application(&self, connect: &Connect<'_>) -> Result<Connected, ConnectRefusal> {
        match caught(|| (self.on_connect)(connect)) {
            Ok(decided) => decided.map_err(ConnectRefusal::Application),
            Err(Crash(reason)) => {
                self.metrics.crashes.inc();
                tracing::warn!(reason, "connect crashed");
                Err(ConnectRefusal::Application(Refused::because("")))
            }
        }
    }

    /// The question about a client. `None`: it may connect without one.
    fn question(
        &self,
        request: &ConnectRequest<'_>,
        params: &Params,
        connected: &Connected,
    ) -> Result<Option<ConnectQuestion>, ConnectRefusal> {
        let Some(ConnectHook { hooks, own_client_key, .. }) = &self.hook else { return Ok(None) };
        if own_client_key.is_in(params) {
            return Ok(None);
        }
        let Some(slot) = hooks.reserve(Hook::Connect) else {
            return match ConnectVerdict::without_backend(hooks.settings().on_failure) {
                ConnectVerdict::Allowed(_) => Ok(None),
                _ => Err(ConnectRefusal::NoBackend),
            };
        };
        let grant = connected.token().map(|token| token.grant());
        let body = ConnectBody {
            transport: request.transport,
            params: params.map(),
            auth_token: request.auth_token,
            origin: request.origin,
            user: grant.as_ref().map(|grant| &*grant.subject),
            socket_id: connected.id.as_deref(),
            address: request.from.ip(),
        };
        let body = body.to_json();
        if body.len() > hooks.settings().body_bytes_max as usize {
            return Err(ConnectRefusal::ParamsTooLarge);
        }
        Ok(Some(ConnectQuestion { body, slot }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_without_an_origin_only_if_it_has_no_such_header() {
        let of = |values: &'static [&'static [u8]]| origin_of(values.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[b"https://a"]), Some("https://a"));
        assert_eq!(of(&[b""]), Some(""));
        assert_eq!(of(&[b"https://\xe9vil"]), Some(""));
        assert_eq!(of(&[b"https://a", b"https://evil"]), Some(""));
    }
}
