//! The targets of each crate.

mod bitswap;
mod bus;
mod channels;
mod content;
mod encryption;
mod exchange;
mod leaves;
mod neighbours;
mod server;
mod sockets;
mod stun;
mod wire;

use crate::Target;

/// Every target.
pub static TARGETS: &[Target] = &[
    Target::new("cid_text", content::cid_text),
    Target::new("cid_bytes", content::cid_bytes),
    Target::new("cid_prefix", content::cid_prefix),
    Target::new("dag_pb", content::dag_pb),
    Target::new("unixfs", content::unixfs),
    Target::new("block", content::block),
    Target::with_memory("dag", content::dag, 16 * 1024 * 1024),
    Target::with_memory("file", content::file, 512 * 1024),
    Target::new("directory_names", content::directory_names),
    Target::with_memory("car_archive", content::car_archive, 16 * 1024 * 1024),
    Target::new("bitswap_message", bitswap::bitswap_message),
    Target::new("bitswap_frames", bitswap::bitswap_frames),
    Target::with_memory("bitswap_exchange", exchange::bitswap_exchange, 1024 * 1024),
    Target::new("leaf_frames", leaves::leaf_frames),
    Target::new("bus_frames", bus::bus_frames),
    Target::new("frame_v1", channels::frame_v1),
    Target::new("frame_v2", channels::frame_v2),
    Target::new("frame_v2_binary", channels::frame_v2_binary),
    Target::new("handshake_query", channels::handshake_query),
    Target::new("handshake_origin", channels::handshake_origin),
    Target::new("handshake_subprotocol", channels::handshake_subprotocol),
    Target::new("broadcast", channels::broadcast),
    Target::new("reference", channels::reference),
    Target::new("longpoll_body", channels::longpoll_body),
    Target::new("longpoll_session", channels::longpoll_session),
    Target::new("websocket_frames", sockets::websocket_frames),
    Target::new("request_head", sockets::request_head),
    Target::new("proxy_header", sockets::proxy_header),
    Target::with_memory("settings", server::settings, 16 * 1024 * 1024),
    Target::new("private_index", encryption::private_index),
    Target::with_memory("private_page", encryption::private_page, 1024 * 1024),
    Target::new("stun_request", stun::stun_request),
    Target::new("neighbour_filter", neighbours::neighbour_filter),
    Target::with_memory("wire_packets", wire::wire_packets, 4 * 1024 * 1024),
];
