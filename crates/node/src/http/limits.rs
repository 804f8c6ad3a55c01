use axum::Json;
use axum::extract::State;
use http::{HeaderMap, header};
use serde_json::{Value, json};

use super::Site;
use crate::settings::{P2pSettings, Settings};

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
    let report = Some(&settings.pages.report).filter(|report| !report.is_empty());
    json!({ "limits": told(&table), "p2p": p2p(&settings.p2p), "report": report })
}

/// What meeting peers of libp2p may cost; `null` where none are met.
fn p2p(settings: &P2pSettings) -> Option<Value> {
    #[rustfmt::skip] // A table reads as one.
    let table: [(&str, u64, &str, &str); 4] = [
        ("cache_bytes_max", settings.cache_bytes_max, "bytes",
            "The block that was asked for the longest ago is forgotten, and fetched again for who asks for it."),
        ("pages_max", settings.pages_max.into(), "pages",
            "The page waits until another is crossed by nothing any more."),
        ("wants_per_peer_max", settings.wants_per_peer_max.into(), "blocks",
            "The want is answered with DONT_HAVE, where the peer asked for that, or passed over."),
        ("connections_max", settings.connections_max.into(), "connections",
            "The connection is refused. Near the limit those on which no block moved for long are closed."),
    ];
    settings.is_on().then(|| told(&table))
}

fn told(table: &[(&str, u64, &str, &str)]) -> Value {
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
    fn every_limit_of_the_settings_is_told() {
        let told = limits(&Settings::default());
        let settings = toml::Table::try_from(Settings::default()).unwrap();
        for (name, value) in settings["limits"].as_table().unwrap() {
            if value.is_integer() {
                assert!(told["limits"][name]["value"].is_u64(), "{name} is not told");
                assert!(told["limits"][name]["when_reached"].is_string(), "{name}");
            }
        }
        assert!(told["p2p"].is_null(), "nobody is met");
    }

    #[test]
    fn every_limit_of_meeting_peers_is_told_where_they_are_met() {
        let mut settings = Settings::default();
        settings.p2p.listen = vec!["/ip4/127.0.0.1/tcp/0".parse().unwrap()];
        let told = limits(&settings);
        for (name, value) in toml::Table::try_from(settings.p2p).unwrap() {
            if value.is_integer() {
                assert!(told["p2p"][&name]["value"].is_u64(), "{name} is not told");
                assert!(told["p2p"][&name]["when_reached"].is_string(), "{name}");
            }
        }
    }
}
