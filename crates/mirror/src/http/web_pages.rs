//! Refuses requests that a web page of another site makes a browser send.
//!
//! A client of the mirror needs no password, because it runs on the host or in its network. A browser runs
//! there too, and sends what any web page asks for. Two rules keep such a page from private images:
//!
//! - A browser names the page's site in `Origin` and `Sec-Fetch-Site`. No engine sends these headers, so a
//!   request from another site is refused.
//! - A page can make its own DNS name lead to this host (DNS rebinding). The request then looks as if it came
//!   from the mirror's own page, except that `Host` has that name. So on loopback `Host` must be an IP
//!   address, `localhost`, or a name of the settings. In a network only the operator knows the names of the mirror:
//!   there the names are checked when the settings have any.

use std::net::IpAddr;

use http::request::Parts;
use http::uri::Authority;
use http::{HeaderValue, header};

use crate::oci::{ApiError, ErrorCode};

const FETCH_SITE: &str = "sec-fetch-site";

/// Checks the headers of a request. `names` are the names of this mirror.
pub(super) fn check(request: &Parts, client: IpAddr, names: &[String]) -> Result<(), ApiError> {
    let value = |name: &str| request.headers.get(name).map(HeaderValue::as_bytes);
    // An address with a host counts, and not the header (RFC 9112, 3.2.2).
    let host = request.uri.authority().map(|authority| authority.as_str().as_bytes());
    let host = host.or(value(header::HOST.as_str()));
    let site = value(FETCH_SITE);
    if let Some(site) = site.filter(|site| !matches!(*site, b"same-origin" | b"none")) {
        return Err(of_another_site(site));
    }
    if let Some(origin) = value(header::ORIGIN.as_str()) {
        let own = host.unwrap_or_default();
        let is_own = [b"http://".as_slice(), b"https://"].iter().any(|scheme| {
            origin.strip_prefix(*scheme).is_some_and(|origin| origin.eq_ignore_ascii_case(own))
        });
        if !is_own {
            return Err(of_another_site(origin));
        }
    }
    let is_checked = client.to_canonical().is_loopback() || !names.is_empty();
    // A browser always sends the header.
    host.filter(|_| is_checked).map_or(Ok(()), |host| check_host(host, names))
}

fn of_another_site(site: &[u8]) -> ApiError {
    let message = format!(
        "cannot serve the web page of another site ({}): send the request without Origin and Sec-Fetch-Site, as engines and curl do",
        String::from_utf8_lossy(site)
    );
    ApiError::new(ErrorCode::Denied, message)
}

fn check_host(host: &[u8], names: &[String]) -> Result<(), ApiError> {
    let is_allowed = |host: &str| {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let host = host.to_ascii_lowercase();
        // Names below localhost always lead to loopback (RFC 6761, 6.3).
        host == "localhost"
            || host.ends_with(".localhost")
            || bare.parse::<IpAddr>().is_ok()
            || names.iter().any(|name| name.eq_ignore_ascii_case(&host))
    };
    if Authority::try_from(host).is_ok_and(|authority| is_allowed(authority.host())) {
        return Ok(());
    }
    let message = format!(
        "cannot serve at the host {:?}: use an IP address or localhost, such as http://127.0.0.1:5000, or add the name with --name",
        String::from_utf8_lossy(host)
    );
    Err(ApiError::new(ErrorCode::Denied, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_request(client: &str, lines: &[(&str, &str)], names: &[&str]) -> Result<(), ApiError> {
        let mut request = http::Request::builder().uri("/v2/");
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
        check(&request.body(()).unwrap().into_parts().0, client.parse().unwrap(), &names)
    }

    #[test]
    fn on_loopback_a_host_is_an_address_or_localhost_or_a_name_of_the_settings() {
        let check = |host: &str, names: &[&str]| {
            check_host(
                host.as_bytes(),
                &names.iter().copied().map(str::to_owned).collect::<Vec<_>>(),
            )
        };
        for host in [
            "127.0.0.1:5000",
            "127.0.0.1",
            "[::1]:5000",
            "localhost:5000",
            "LocalHost",
            "registry.localhost:5000",
            "192.0.2.1:1",
        ] {
            assert!(check(host, &[]).is_ok(), "{host}");
        }
        for host in [
            "",
            "a.example",
            "a.example:5000",
            "127.0.0.1.a.example:5000",
            "localhost.a.example",
            "a b",
            "é",
        ] {
            let error = check(host, &["b.example"]).unwrap_err();
            assert_eq!(error.code, ErrorCode::Denied);
            assert!(error.message.contains("IP address or localhost"), "{host}: {}", error.message);
        }
        assert!(check("A.example:5000", &["b.example", "a.Example"]).is_ok());
    }

    #[test]
    fn other_names_are_for_clients_of_the_network_if_the_settings_have_no_name() {
        let rebound = [("host", "attacker.example:5000")];
        for client in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert!(check_request(client, &rebound, &[]).is_err(), "{client}");
            assert!(check_request(client, &[], &[]).is_ok(), "HTTP/1.0 has no Host");
        }
        assert!(check_request("192.0.2.1", &rebound, &[]).is_ok());
        assert!(check_request("192.0.2.1", &rebound, &["mirror.example"]).is_err());
        assert!(
            check_request("192.0.2.1", &[("host", "mirror.example")], &["mirror.example"]).is_ok()
        );
    }

    #[test]
    fn web_pages_of_other_sites_are_refused_everywhere() {
        let host = ("host", "127.0.0.1:5000");
        for client in ["127.0.0.1", "192.0.2.1"] {
            for line in [
                ("origin", "http://attacker.example"),
                ("origin", "http://127.0.0.1:3000"),
                ("origin", "null"),
                ("origin", ""),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-site", "same-site"),
            ] {
                let error = check_request(client, &[host, line], &[]).unwrap_err();
                assert_eq!(error.code, ErrorCode::Denied, "{line:?}");
            }
            for line in [
                ("origin", "http://127.0.0.1:5000"),
                ("sec-fetch-site", "same-origin"),
                ("sec-fetch-site", "none"),
                ("user-agent", "containerd/2.4.2"),
            ] {
                assert!(check_request(client, &[host, line], &[]).is_ok(), "{line:?}");
            }
        }
    }
}
