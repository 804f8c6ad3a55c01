//! Which requests the operator's listener answers.
//!
//! On a loopback address, every program of the machine may read. A browser is such a program, and
//! runs the code of any website. So requests that a website can cause are refused: those with an
//! `Origin` or from another site, and those for a host name that a website could point at the
//! loopback address (DNS rebinding). On any other address, every request needs the token.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Version, header};
use watchfire::internal::{is_utf8, refuse_call as refuse};
use watchfire_sockets::is_host_and_port;

use super::access::Access;
use super::page;

pub(super) struct Guard {
    pub address: SocketAddr,
    pub access: Arc<Access>,
    /// Whether the listener serves the API, whose requests have keys of their own.
    pub serves_api: bool,
}

/// The address of this machine to which a request was sent.
#[derive(Clone, Copy)]
pub(super) struct LocalAddress(pub SocketAddr);

#[derive(Debug, PartialEq, Eq)]
enum Refused {
    Website,
    NoToken,
    /// Its host may be the name of a website.
    UnknownHost,
}

impl Guard {
    fn check(&self, path: &str, headers: &HeaderMap, local: IpAddr) -> Result<(), Refused> {
        let fetch_site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        let is_other_site =
            fetch_site.is_some_and(|site| !matches!(site, b"none" | b"same-origin"));
        if is_other_site || !has_own_origin(headers) {
            return Err(Refused::Website);
        }
        let needs_no_token =
            page::is_static(path) || (self.serves_api && path.starts_with("/api/"));
        if self.access.permits(headers) || needs_no_token {
            return Ok(());
        }
        if !self.address.ip().is_loopback() {
            return Err(Refused::NoToken);
        }
        match is_own_host(headers, local) {
            true => Ok(()),
            false => Err(Refused::UnknownHost),
        }
    }
}

/// Whether a request has no origin, or that of the page of this listener: a page at the host to which the
/// request was sent. Whether a website may have that host is checked afterwards.
fn has_own_origin(headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = origins.next() else { return true };
    let host = origin.as_bytes().strip_prefix(b"http://");
    let host = host.or_else(|| origin.as_bytes().strip_prefix(b"https://"));
    let is_own = host.is_some() && host == headers.get(header::HOST).map(|host| host.as_bytes());
    is_own && origins.next().is_none()
}

/// Whether a request has one host, which is `localhost`, a loopback address, or the address to which
/// the request was sent. Its port does not matter: a tunnel may have another one.
fn is_own_host(headers: &HeaderMap, local: IpAddr) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(authority) = Authority::try_from(host.as_bytes()) else { return false };
    let host = authority.host();
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match literal.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address == local,
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// Whether a request names one valid host, as the event loops require it (RFC 9112, 3.2).
fn has_valid_host(request: &Request) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => is_host_and_port(host.as_bytes()),
        (None, _) => request.version() == Version::HTTP_10,
        (Some(_), Some(_)) => false,
    }
}

/// Refuses requests that are not the operator's.
pub(super) async fn guard(
    State(guard): State<Arc<Guard>>,
    request: Request,
    next: Next,
) -> Response {
    if !has_valid_host(&request) {
        let message = "Send one Host header with a name or an address, and a port.";
        return refuse(StatusCode::BAD_REQUEST, "no valid host", message);
    }
    if !is_utf8(request.uri()) {
        let message = "Write the path and the query in UTF-8, and escape its bytes.";
        return refuse(StatusCode::BAD_REQUEST, "not UTF-8", message);
    }
    let local = request.extensions().get::<LocalAddress>().map_or(guard.address, |local| local.0);
    let Err(refused) = guard.check(request.uri().path(), request.headers(), local.ip()) else {
        return next.run(request).await;
    };
    let (reason, message) = match refused {
        Refused::NoToken => return guard.access.deny().await,
        Refused::Website => (
            "from a website",
            "Requests that a website causes are refused. Open this address from the address bar.",
        ),
        Refused::UnknownHost => (
            "unknown host",
            "Send the request to localhost or to the address of the listener, or with the admin token.",
        ),
    };
    guard.access.note_refusal();
    refuse(StatusCode::FORBIDDEN, reason, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "a token of the operator";

    fn guard(address: &str) -> Guard {
        let access = Arc::new(Access::new(TOKEN, &Arc::default()));
        Guard { address: address.parse().unwrap(), access, serves_api: false }
    }

    fn check(address: &str, headers: &[(&'static str, &str)]) -> Result<(), Refused> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let guard = guard(address);
        guard.check("/metrics", &map, guard.address.ip())
    }

    #[test]
    fn a_loopback_listener_answers_requests_for_the_machine_itself() {
        for host in ["localhost", "LocalHost:9", "127.0.0.1:4010", "127.9.9.9", "[::1]:4010"] {
            assert_eq!(check("127.0.0.1:4010", &[("host", host)]), Ok(()), "{host}");
        }
        assert_eq!(check("[::1]:4010", &[("host", "[::1]")]), Ok(()));
    }

    #[test]
    fn a_host_that_a_website_may_own_is_refused() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "192.0.2.1",
            "[2001:db8::1]",
            "localhost@evil.example",
            "",
        ] {
            let refused = check("127.0.0.1:4010", &[("host", host)]);
            assert_eq!(refused, Err(Refused::UnknownHost), "{host}");
        }
        assert_eq!(check("127.0.0.1:4010", &[]), Err(Refused::UnknownHost));
        let two = check("127.0.0.1:4010", &[("host", "localhost"), ("host", "evil.example")]);
        assert_eq!(two, Err(Refused::UnknownHost));
    }

    #[test]
    fn a_request_that_a_website_causes_is_refused_even_with_the_token() {
        let token = ("authorization", "Bearer a token of the operator");
        for header in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://localhost:4000"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            for address in ["127.0.0.1:4010", "192.0.2.1:4010"] {
                let refused = check(address, &[("host", "localhost"), header, token]);
                assert_eq!(refused, Err(Refused::Website), "{header:?}");
            }
        }
        for site in ["none", "same-origin"] {
            let headers = [("host", "localhost"), ("sec-fetch-site", site)];
            assert_eq!(check("127.0.0.1:4010", &headers), Ok(()), "{site}");
        }
    }

    #[test]
    fn on_any_other_address_every_request_needs_the_token() {
        let right = ("authorization", "Bearer a token of the operator");
        let wrong = ("authorization", "Bearer a token of the operator!");
        for address in ["0.0.0.0:4010", "192.0.2.1:4010", "[::]:4010"] {
            let host = ("host", "127.0.0.1:4010");
            assert_eq!(check(address, &[host]), Err(Refused::NoToken));
            assert_eq!(check(address, &[host, wrong]), Err(Refused::NoToken));
            assert_eq!(check(address, &[host, right]), Ok(()));
            assert_eq!(check(address, &[("host", "watchfire.internal"), right]), Ok(()));
        }
        assert_eq!(check("127.0.0.1:1", &[("host", "watchfire.internal"), right]), Ok(()));
    }

    #[test]
    fn requests_of_the_api_need_no_token_where_the_listener_serves_it() {
        let mut guard = guard("192.0.2.1:4010");
        let check = |guard: &Guard, path: &str, headers: &HeaderMap| {
            guard.check(path, headers, guard.address.ip())
        };
        let mut headers = HeaderMap::new();
        assert_eq!(check(&guard, "/api/info", &headers), Err(Refused::NoToken));
        guard.serves_api = true;
        assert_eq!(check(&guard, "/api/info", &headers), Ok(()));
        assert_eq!(check(&guard, "/apis", &headers), Err(Refused::NoToken));
        headers.insert("origin", "http://evil.example".parse().unwrap());
        assert_eq!(check(&guard, "/api/info", &headers), Err(Refused::Website));
    }
}
