//! A server on a free port, and requests to it.
#![allow(dead_code, reason = "no test file uses all of it")]

use std::net::SocketAddr;

use watchfire::{RunningServer, Settings};
use watchfire_operator::AdminSettings;
use watchfire_testkit::exchange;

/// The settings of a server that has the operator's listener.
pub fn settings() -> Settings {
    let mut settings = settings_without_operator();
    settings.section_mut::<AdminSettings>().listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    settings
}

pub fn settings_without_operator() -> Settings {
    let mut settings = Settings::default();
    settings.server.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    settings.server.shards = 2;
    settings
}

/// Sends an HTTP request on a new connection, and returns the whole response.
pub fn http(server: &RunningServer, request: &str) -> String {
    exchange(server.address(), request)
}

pub fn get(server: &RunningServer, path: &str) -> String {
    http(server, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
}

/// The first address of the operator's listener.
pub fn admin_address(server: &RunningServer) -> SocketAddr {
    *server.addresses_of("operator").first().expect("the server has an admin listener")
}

/// The response of the operator's listener, with its head.
pub fn metrics(server: &RunningServer) -> String {
    let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    exchange(admin_address(server), request)
}

/// The value of one series of `/metrics`.
pub fn metric(server: &RunningServer, name: &str) -> u64 {
    let metrics = metrics(server);
    let line = metrics.lines().find(|line| line.split([' ']).next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("{name} is missing in\n{metrics}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}
