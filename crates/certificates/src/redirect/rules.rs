//! The answer to a request over plain HTTP.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use http::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use http::request::Parts;
use http::{Method, StatusCode, Uri};
use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;

use crate::acme::AcmePlan;
use crate::plan::ServerAddresses;
use crate::settings::AcmeChallenge;

/// The path of HTTP-01 (RFC 8555, 8.3).
const CHALLENGES: &str = "/.well-known/acme-challenge/";

const HTTPS_PORT: u16 = 443;

/// Longest host name (RFC 1035).
const HOST_LEN_MAX: usize = 253;

/// To which hosts requests are redirected.
#[derive(Debug)]
pub(crate) struct RedirectRules {
    /// The hosts of this server in lower case. Empty: every host.
    hosts: Vec<String>,
    /// The host of `server.public_url`.
    public_host: Option<String>,
    acme_domains: Option<Vec<String>>,
    /// Their subdomains are hosts of this server.
    domains: Vec<String>,
    /// The port of an `https` `server.public_url`. `None`: the port of the first listener.
    public_port: Option<u16>,
    /// For the answers to HTTP-01.
    acme: Option<Arc<AcmePlan>>,
}

impl RedirectRules {
    pub fn new(server: ServerAddresses<'_>, acme: Option<Arc<AcmePlan>>) -> Self {
        let public = server.public_url.parse::<Uri>().ok();
        let public = public.filter(|url| url.host().is_some());
        let public_host = public.as_ref().and_then(Uri::host);
        let public_host =
            public_host.map(|host| host.trim_matches(['[', ']']).to_ascii_lowercase());
        let acme_domains = acme.as_ref().map(|acme| acme.domains().to_vec());
        let hosts = public_host.iter().chain(acme_domains.iter().flatten()).cloned().collect();
        let is_https = |url: &Uri| url.scheme_str() == Some("https");
        let public_port = public.filter(is_https).map(|url| url.port_u16().unwrap_or(HTTPS_PORT));
        RedirectRules {
            hosts,
            public_host,
            acme_domains,
            domains: server.domains.iter().map(|domain| domain.to_ascii_lowercase()).collect(),
            public_port,
            acme: acme.filter(|acme| acme.challenge() == AcmeChallenge::Http01),
        }
    }

    /// Where requests are redirected to, for people.
    pub fn describe(&self, serving: Option<SocketAddr>) -> String {
        let port = self.public_port.or(serving.map(|address| address.port()));
        let host = match self.hosts.first() {
            Some(host) => bracketed(host),
            None => "the requested host".into(),
        };
        format!("https://{host}{}", port_suffix(port.unwrap_or(HTTPS_PORT)))
    }

    /// A contradiction between the hosts of the settings, for people.
    pub fn warning(&self) -> Option<String> {
        let (host, domains) = (self.public_host.as_ref()?, self.acme_domains.as_ref()?);
        (!domains.contains(host)).then(|| {
            format!("warning: the host of server.public_url, {host}, is not in tls.acme.domains; add it, or browsers refuse the certificate")
        })
    }

    fn has_host(&self, host: &str) -> bool {
        let is_below = |domain: &String| {
            host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.hosts.is_empty()
            || self.hosts.iter().any(|known| known == host)
            || self.domains.iter().any(is_below)
    }
}

/// Answers requests over plain HTTP.
#[derive(Debug)]
pub(crate) struct Redirects {
    rules: RedirectRules,
    port: u16,
}

impl Redirects {
    /// `serving` is the address of the first listener with TLS.
    pub fn new(rules: RedirectRules, serving: SocketAddr) -> Self {
        let port = rules.public_port.unwrap_or(serving.port());
        Redirects { rules, port }
    }

    /// The answer to a request. Its body is not read.
    pub fn answer(&self, head: &Parts) -> Response<Full<Bytes>> {
        if let (Some(acme), Some(token)) =
            (&self.rules.acme, head.uri.path().strip_prefix(CHALLENGES))
        {
            return challenge(acme, &head.method, token);
        }
        if head.method == Method::CONNECT || !head.uri.path().starts_with('/') {
            return text(StatusCode::BAD_REQUEST, "cannot redirect: the request has no path\n");
        }
        let Some(host) = host(head) else {
            return text(
                StatusCode::BAD_REQUEST,
                "cannot redirect: the request needs one Host header with a valid host\n",
            );
        };
        if !self.rules.has_host(&host) {
            return text(
                StatusCode::MISDIRECTED_REQUEST,
                "cannot redirect: this server does not serve the requested host\n",
            );
        }
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let location = format!("https://{}{}{path}", bracketed(&host), port_suffix(self.port));
        let Ok(location) = HeaderValue::try_from(location) else {
            return text(StatusCode::BAD_REQUEST, "cannot redirect: the path is not valid\n");
        };
        let mut response = text(StatusCode::PERMANENT_REDIRECT, "use HTTPS\n");
        response.headers_mut().insert(LOCATION, location);
        response
    }
}

fn challenge(acme: &AcmePlan, method: &Method, token: &str) -> Response<Full<Bytes>> {
    if ![Method::GET, Method::HEAD].contains(method) {
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match acme.http_answer(token) {
        Some(answer) => {
            let mut response = Response::new(Full::new(answer.into()));
            let content_type = HeaderValue::from_static("application/octet-stream");
            response.headers_mut().insert(CONTENT_TYPE, content_type);
            response
        }
        None => text(StatusCode::NOT_FOUND, "no such challenge is pending\n"),
    }
}

fn text(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// The requested host in lower case, without its port and brackets; `None` if it is missing or
/// invalid. The host of a whole URL counts more than the header (RFC 9112, 3.2.2).
fn host(head: &Parts) -> Option<String> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let header = (hosts.next(), hosts.next());
    let authority = match (head.uri.authority(), header) {
        (Some(authority), (Some(_), None)) => authority.as_str(),
        (None, (Some(host), None)) => host.to_str().ok()?,
        _ => return None,
    };
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, rest)
        }
        None => {
            let end = authority.find(':').unwrap_or(authority.len());
            let (host, rest) = authority.split_at(end);
            is_name(host).then_some((host, rest))?
        }
    };
    let is_port = |port: &str| {
        port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse::<u16>().is_ok()
    };
    let is_valid = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    is_valid.then(|| host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase())
}

/// Whether a text is a host name or an IPv4 address.
fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    host.len() <= HOST_LEN_MAX && host.strip_suffix('.').unwrap_or(host).split('.').all(is_label)
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn port_suffix(port: u16) -> String {
    if port == HTTPS_PORT { String::new() } else { format!(":{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn redirects(public_url: &str, port: u16) -> Redirects {
        let domains = ["pages.example.net".to_owned()];
        let domains = if public_url.is_empty() { &[] } else { &domains[..] };
        let server = ServerAddresses { public_url, domains, ..ServerAddresses::default() };
        let serving = SocketAddr::from(([127, 0, 0, 1], port));
        Redirects::new(RedirectRules::new(server, None), serving)
    }

    /// The status and location of the answer to a request with these Host headers.
    fn answer(redirects: &Redirects, target: &str, hosts: &[&str]) -> (u16, String) {
        let mut request = Request::get(target);
        for host in hosts {
            request = request.header("host", *host);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let response = redirects.answer(&head);
        let location = response.headers().get(LOCATION).map(|to| to.to_str().unwrap().to_owned());
        (response.status().as_u16(), location.unwrap_or_default())
    }

    #[test]
    fn a_request_is_redirected_to_the_same_path_at_the_port_of_tls() {
        for (port, host, expected) in [
            (443, "a.example", "https://a.example/x?y=z"),
            (8443, "A.example:80", "https://a.example:8443/x?y=z"),
            (8443, "192.0.2.1:8080", "https://192.0.2.1:8443/x?y=z"),
            (443, "[2001:db8::1]:80", "https://[2001:db8::1]/x?y=z"),
        ] {
            let answer = answer(&redirects("", port), "/x?y=z", &[host]);
            assert_eq!(answer, (308, expected.to_owned()));
        }
    }

    #[test]
    fn a_missing_or_invalid_host_is_refused() {
        let redirects = redirects("", 443);
        assert_eq!(answer(&redirects, "/", &[]).0, 400);
        assert_eq!(answer(&redirects, "/", &["a.example", "a.example"]).0, 400);
        let long = "a.".repeat(200);
        for host in [
            "", ":80", "a b", "a/b", "a@b", "a\\b", "a?b", "a#b", "[::1", "[x]", "a:b", "a:99999",
            ".", "a..b", "[::1]x", "a%2eb", &long,
        ] {
            assert_eq!(answer(&redirects, "/", &[host]), (400, String::new()), "{host}");
        }
    }

    #[test]
    fn the_host_of_a_whole_url_counts_and_a_path_cannot_change_the_host() {
        let redirects = redirects("", 443);
        let whole = answer(&redirects, "http://b.example/x", &["a.example"]);
        assert_eq!(whole, (308, "https://b.example/x".to_owned()));
        let slashes = answer(&redirects, "//evil.example/", &["a.example"]);
        assert_eq!(slashes, (308, "https://a.example//evil.example/".to_owned()));
        assert_eq!(answer(&redirects, "*", &["a.example"]).0, 400);
    }

    #[test]
    fn other_hosts_than_those_of_the_settings_are_refused() {
        let redirects = redirects("https://a.example:8443", 443);
        let expected = (308, "https://a.example:8443/".to_owned());
        assert_eq!(answer(&redirects, "/", &["a.example"]), expected);
        assert_eq!(answer(&redirects, "/", &["x.pages.example.net"]).0, 308);
        for host in ["b.example", "192.0.2.1", "xa.example", "xpages.example.net"] {
            assert_eq!(answer(&redirects, "/", &[host]), (421, String::new()), "{host}");
        }
    }
}
