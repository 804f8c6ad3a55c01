use axum::Json;
use axum::extract::State;
use http::{HeaderMap, header};
use serde_json::{Value, json};

use super::Site;
use crate::settings::Settings;

/// `GET /limits`: every bound, its unit, and what happens at it.
pub(super) async fn show(State(site): State<Site>, headers: HeaderMap) -> Json<Value> {
    let mut told = limits(&site.world.settings);
    // Where the reader's sites are: `<cid>.` and this. Nothing where there are none.
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    told["sites"] = host.and_then(|host| site.world.sites.below(host)).into();
    Json(told)
}

fn limits(settings: &Settings) -> Value {
    let limits = &settings.limits;
    #[rustfmt::skip] // A table reads as one.
    let table: [(&str, u64, &str, &str); 27] = [
        ("frame_bytes_max", limits.frame_bytes_max.into(), "bytes",
            "The socket is closed with code 1009."),
        ("partial_bytes_max", limits.partial_bytes_max, "bytes",
            "Half-received messages of one event loop; the socket that asks for more is closed with code 1013."),
        ("queued_bytes_max", limits.queued_bytes_max.into(), "bytes",
            "A socket that does not read is closed with code 1013; a relayed frame is refused to its sender."),
        ("channels_per_socket_max", limits.channels_per_socket_max.into(), "channels",
            "The join is refused: \"too many channels joined\"."),
        ("joins_per_second_max", limits.joins_per_second_max.into(), "joins a second",
            "The join is refused: \"too fast\"."),
        ("messages_per_second_max", limits.messages_per_second_max.into(), "messages a second",
            "The message is refused: \"too fast\". Relayed frames do not count here."),
        ("sockets_max", limits.sockets_max.into(), "sockets",
            "The connection gets 503. 0 means what the open-file limit allows."),
        ("sockets_per_address_max", limits.sockets_per_address_max.into(), "sockets",
            "The connection gets 429."),
        ("longpoll_frames_max", limits.longpoll_frames_max.into(), "frames",
            "The long-poll session ends; the client opens another."),
        ("longpoll_bytes_max", limits.longpoll_bytes_max.into(), "bytes",
            "The long-poll session ends; the client opens another."),
        ("longpoll_body_bytes_max", limits.longpoll_body_bytes_max.into(), "bytes",
            "The POST gets 400."),
        ("page_bytes_max", limits.page_bytes_max, "bytes",
            "The browser refuses to share or load the page."),
        ("blocks_in_flight_max", limits.blocks_in_flight_max.into(), "blocks",
            "The browser asks one peer for no more until some have come."),
        ("peers_per_page_max", limits.peers_per_page_max.into(), "peers",
            "The join is refused: \"page full\"."),
        ("pages_max", limits.pages_max.into(), "pages",
            "The join is refused: \"too many pages\"."),
        ("pages_per_address_max", limits.pages_per_address_max.into(), "pages",
            "The join is refused: \"too many pages of this address\"."),
        ("relay_frame_bytes_max", limits.relay_frame_bytes_max.into(), "bytes",
            "The frame is refused: \"relay frame too large\"."),
        ("relay_bytes_per_second", limits.relay_bytes_per_second, "bytes a second",
            "The frame is refused with the time to wait: \"relay budget\"."),
        ("relay_bytes_per_second_peer", limits.relay_bytes_per_second_peer, "bytes a second",
            "The frame is refused with the time to wait: \"relay budget\"."),
        ("relay_bytes_per_second_address", limits.relay_bytes_per_second_address, "bytes a second",
            "The frame is refused with the time to wait: \"relay budget\"."),
        ("relay_bytes_per_day_address", limits.relay_bytes_per_day_address, "bytes a day",
            "The frame is refused with the time to wait: \"relay budget\". 0 means that there is no such limit."),
        ("signal_bytes_max", limits.signal_bytes_max.into(), "bytes",
            "The signal is refused: \"signal too large\"."),
        ("signals_per_second_max", limits.signals_per_second_max.into(), "signals a second",
            "The signal is refused with the time to wait: \"too many signals\"."),
        ("planes_max", limits.planes_max.into(), "planes",
            "The join is refused: \"too many planes\"."),
        ("plane_peers_max", limits.plane_peers_max.into(), "peers",
            "The join is refused: \"planes full\"."),
        ("throw_bytes_max", limits.throw_bytes_max.into(), "bytes",
            "The throw is refused: \"throw too large\"."),
        ("arrivals_queued_max", limits.arrivals_queued_max.into(), "sprites",
            "A throw comes back to its thrower until the neighbour has polled."),
    ];
    let limits: serde_json::Map<String, Value> = table
        .into_iter()
        .map(|(name, value, unit, when_reached)| {
            (name.into(), json!({ "value": value, "unit": unit, "when_reached": when_reached }))
        })
        .collect();
    let report = Some(&settings.pages.report).filter(|report| !report.is_empty());
    json!({ "limits": limits, "report": report })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_of_the_settings_is_told() {
        let told = limits(&Settings::default());
        let settings = toml::Table::try_from(Settings::default()).unwrap();
        for (name, value) in settings["limits"].as_table().unwrap() {
            if value.is_integer() {
                assert!(told["limits"][name]["value"].is_u64(), "{name} is not told");
                assert!(told["limits"][name]["when_reached"].is_string(), "{name}");
            }
        }
    }
}
