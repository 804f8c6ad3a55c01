//! `GET /limits`: every limit, its unit, and what happens when it is reached.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use http::{HeaderMap, header};
use serde_json::{Value, json};

use crate::settings::{ApiSettings, P2pSettings, Settings};
use crate::sites::SiteHosts;

/// The response, which does not change, and the hosts of sites.
struct LimitsPage {
    limits: Value,
    hosts: Arc<SiteHosts>,
}

pub(super) fn routes(settings: &Settings, hosts: Arc<SiteHosts>) -> Router {
    let mut limits = limits(settings);
    if watchfire_traces::is_on() {
        // Tells browsers to trace this share of their page loads.
        limits["traces"] = json!({ "sample": settings.traces.sample });
    }
    let page = LimitsPage { limits, hosts };
    Router::new().route("/limits", get(show)).with_state(Arc::new(page))
}

async fn show(State(page): State<Arc<LimitsPage>>, headers: HeaderMap) -> Json<Value> {
    let mut response = page.limits.clone();
    // `null` when this client has no sites.
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    response["sites"] = host.and_then(|host| page.hosts.site_authority(host)).into();
    Json(response)
}

fn limits(settings: &Settings) -> Value {
    let limits = &settings.limits;
    #[rustfmt::skip] // A table.
    let table: [(&str, u64, &str, &str); 27] = [
        ("frame_bytes_max", limits.frame_bytes_max.into(), "bytes",
            "The socket is closed with code 1009."),
        ("partial_bytes_max", limits.partial_bytes_max, "bytes",
            "The socket that needs more is closed with code 1013. Counts half-received messages of one event loop."),
        ("queued_bytes_max", limits.queued_bytes_max.into(), "bytes",
            "A socket that does not read is closed with code 1013. The message that is being written does not count, and each other one at most a quarter. A join waits, and a relayed frame is refused, at half of it."),
        ("channels_per_socket_max", limits.channels_per_socket_max.into(), "channels",
            "The join is refused: \"too many channels joined\"."),
        ("joins_per_second_per_socket", limits.joins_per_second_per_socket.into(), "joins a second",
            "The join is refused: \"too fast\"."),
        ("messages_per_second_per_socket", limits.messages_per_second_per_socket.into(), "messages a second",
            "The message is refused: \"too fast\". Relayed frames do not count here."),
        ("sockets_max", limits.sockets_max.into(), "sockets",
            "The connection gets 503. 0 means what the open-file limit allows."),
        ("sockets_per_address_max", limits.sockets_per_address_max.into(), "sockets",
            "The connection gets 429. Counts all processes together; of IPv6, a network of 64 bits."),
        ("longpoll_frames_max", limits.longpoll_frames_max.into(), "frames",
            "The long-poll session ends; the client opens another."),
        ("longpoll_bytes_max", limits.longpoll_bytes_max.into(), "bytes",
            "The long-poll session ends; the client opens another. Each message counts at most a quarter."),
        ("longpoll_body_bytes_max", limits.longpoll_body_bytes_max.into(), "bytes",
            "The POST gets 400."),
        ("page_bytes_max", limits.page_bytes_max, "bytes",
            "The browser refuses to share or load the page."),
        ("blocks_in_flight_max", limits.blocks_in_flight_max.into(), "blocks",
            "The browser requests no more from that peer until some have arrived."),
        ("peers_per_page_max", limits.peers_per_page_max.into(), "peers",
            "The join is refused: \"page full\"."),
        ("pages_max", limits.pages_max.into(), "pages",
            "The join is refused: \"too many pages\"."),
        ("pages_per_address_max", limits.pages_per_address_max.into(), "pages",
            "The join is refused: \"too many pages of this address\"."),
        ("relay_frame_bytes_max", limits.relay_frame_bytes_max.into(), "bytes",
            "The frame is refused: \"relay frame too large\"."),
        ("relay_bytes_per_second_per_page", limits.relay_bytes_per_second_per_page, "bytes a second",
            "The frame is refused with the time to wait: \"relay budget\"."),
        ("relay_bytes_per_second_per_peer", limits.relay_bytes_per_second_per_peer, "bytes a second",
            "The frame is refused with the time to wait: \"relay budget\"."),
        ("relay_bytes_per_second_per_address", limits.relay_bytes_per_second_per_address, "bytes a second",
            "The frame is refused with the time to wait: \"relay budget\"."),
        ("relay_bytes_per_day_per_address", limits.relay_bytes_per_day_per_address, "bytes a day",
            "The frame is refused with the time to wait: \"relay budget\". 0 means that there is no such limit."),
        ("signal_bytes_max", limits.signal_bytes_max.into(), "bytes",
            "The signal is refused: \"signal too large\"."),
        ("signals_per_second_per_peer", limits.signals_per_second_per_peer.into(), "signals a second",
            "The signal is refused with the time to wait: \"too many signals\"."),
        ("grids_max", limits.grids_max.into(), "grids",
            "The join is refused: \"too many grids\"."),
        ("grid_peers_max", limits.grid_peers_max.into(), "peers",
            "The join is refused: \"grids full\"."),
        ("throw_bytes_max", limits.throw_bytes_max.into(), "bytes",
            "The throw is refused: \"throw too large\"."),
        ("arrivals_queued_max", limits.arrivals_queued_max.into(), "sprites",
            "A throw returns to its thrower until the neighbour has polled."),
    ];
    let report = Some(&settings.pages.report).filter(|report| !report.is_empty());
    let rooms = settings.channels.open_rooms;
    json!({
        "limits": to_json(&table),
        "p2p": p2p(&settings.p2p),
        "api": api(&settings.api),
        "report": report,
        "rooms": rooms,
    })
}

/// The limits of the HTTP API; `null` on a server without it.
fn api(settings: &ApiSettings) -> Option<Value> {
    #[rustfmt::skip] // A table.
    let table: [(&str, u64, &str, &str); 4] = [
        ("body_bytes_max", settings.body_bytes_max.into(), "bytes",
            "The request gets 413: \"payload_too_large\"."),
        ("requests_max", settings.requests_max.into(), "requests",
            "The request gets 429: \"too_many\". Each process counts for itself."),
        ("idempotency_keys_max", settings.idempotency_keys_max.into(), "keys",
            "A request with a new Idempotency-Key gets 429: \"too_many\". Each process counts for itself."),
        ("idempotency_bytes_max", settings.idempotency_bytes_max.into(), "bytes",
            "A request with a new Idempotency-Key gets 429: \"too_many\". Each process counts for itself."),
    ];
    settings.is_on().then(|| to_json(&table))
}

/// The limits of the gateway; `null` on a server without a gateway.
fn p2p(settings: &P2pSettings) -> Option<Value> {
    #[rustfmt::skip] // A table.
    let table: [(&str, u64, &str, &str); 4] = [
        ("cache_bytes_max", settings.cache_bytes_max, "bytes",
            "The least recently read block is dropped, and fetched again for the next request."),
        ("pages_max", settings.pages_max.into(), "pages",
            "The page waits until the transfer of another page ends."),
        ("wants_per_peer_max", settings.wants_per_peer_max.into(), "blocks",
            "The want is answered with DONT_HAVE if the peer requested that, or else ignored."),
        ("connections_max", settings.connections_max.into(), "connections",
            "The connection is refused. Near the limit, connections without recent blocks are closed."),
    ];
    settings.is_on().then(|| to_json(&table))
}

fn to_json(table: &[(&str, u64, &str, &str)]) -> Value {
    let bounds = table.iter().map(|(name, value, unit, when_reached)| {
        let bound = json!({ "value": value, "unit": unit, "when_reached": when_reached });
        ((*name).to_owned(), bound)
    });
    Value::Object(bounds.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_of_the_settings_is_listed() {
        let listed = limits(&Settings::default());
        let settings = toml::Table::try_from(Settings::default()).unwrap();
        for (name, value) in settings["limits"].as_table().unwrap() {
            if value.is_integer() {
                assert!(listed["limits"][name]["value"].is_u64(), "{name} is not listed");
                assert!(listed["limits"][name]["when_reached"].is_string(), "{name}");
            }
        }
        assert!(listed["p2p"].is_null(), "there is no gateway");
    }

    #[test]
    fn every_limit_of_the_api_is_listed_when_it_is_on() {
        let mut settings = Settings::default();
        assert!(limits(&settings)["api"].is_null(), "there is no API");
        settings.api.key = "0123456789abcdef".into();
        let listed = limits(&settings);
        for (name, value) in toml::Table::try_from(settings.api).unwrap() {
            if value.is_integer() {
                assert!(listed["api"][&name]["value"].is_u64(), "{name} is not listed");
                assert!(listed["api"][&name]["when_reached"].is_string(), "{name}");
            }
        }
    }

    #[test]
    fn every_limit_of_the_gateway_is_listed_when_there_is_one() {
        let mut settings = Settings::default();
        settings.p2p.listen = vec!["/ip4/127.0.0.1/tcp/0".parse().unwrap()];
        let listed = limits(&settings);
        for (name, value) in toml::Table::try_from(settings.p2p).unwrap() {
            if value.is_integer() {
                assert!(listed["p2p"][&name]["value"].is_u64(), "{name} is not listed");
                assert!(listed["p2p"][&name]["when_reached"].is_string(), "{name}");
            }
        }
    }
}
