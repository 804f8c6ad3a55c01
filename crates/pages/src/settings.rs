//! The sections of the settings that the feature reads, in the order of the file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use watchfire::feature::section;

section! {
    "stun";
    /// STUN Binding (RFC 8489) over UDP. It tells browsers their public address, so that they can
    /// connect directly.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct StunSettings {
        /// Whether the server tells browsers their public address (STUN Binding over UDP), so that
        /// browsers behind different routers can connect directly. Without STUN they use the relay.
        enabled: bool = true;
        /// UDP addresses to listen on; empty for the addresses and ports of `server.listen`. If one
        /// of those is in use, the server logs a warning and runs without STUN. An address that is
        /// set here must be free. With two ports, such as 3478 and 3479, a page can also tell its
        /// visitors that a symmetric NAT prevents a direct connection.
        listen: Vec<SocketAddr> = Vec::new();
        /// The host and port that browsers receive, such as `"stun.example.org:3478"`. Set it
        /// behind a proxy, to the port that is open to the outside. Empty: the host of the page and
        /// the first UDP port.
        announce: String = String::new();
        /// Answers per second to one address; of IPv6, one network of 64 bits. Requests beyond it
        /// get no answer.
        #[serde(skip)]
        #[doc(hidden)]
        answers_per_second_per_address: u32 = 50;
        /// Answers per second to all addresses. Requests beyond it get no answer.
        #[serde(skip)]
        #[doc(hidden)]
        answers_per_second: u32 = 10_000;
    }
}

section! {
    "sites";
    /// The hosts of sites: folders of web pages, each on an origin of its own.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub struct SitesSettings {
        /// A page that is a folder with an index.html is shown as a site, on an origin of its own.
        /// Where the app is opened on localhost, that is `<cid>.localhost`. For other visitors, set
        /// a domain whose subdomains all lead to this server, with a certificate for them, such as
        /// `"pages.example.org"`; preferably of another registrable domain than the app's. Empty:
        /// they see single files of it, in a sandboxed frame.
        domain: String = String::new();
        /// The app's origin, such as `"https://watchfire.example.org"`: only it may show the sites.
        /// Required with a domain.
        app: String = String::new();
    }
}

/// The entry of `p2p.bootstrap` that stands for the well-known peers of the public DHT.
const PUBLIC_PEERS: &str = "public";
/// The protocol name of the public DHT.
const PUBLIC_DHT: &str = "/ipfs/kad/1.0.0";

section! {
    "p2p";
    /// The gateway to libp2p peers, such as kubo. It is off while `listen` is empty and `bootstrap`
    /// names no peer.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct P2pSettings {
        /// The gateway between browsers and libp2p peers, such as kubo, is off while listen is
        /// empty and bootstrap names no peer. With several processes, one of them runs it. Addresses
        /// to listen on, such as `"/ip4/0.0.0.0/tcp/4001"` or `"/ip4/0.0.0.0/udp/4001/quic-v1"`.
        listen: Vec<String> = Vec::new();
        /// Peers to stay connected to, such as `"/ip4/192.0.2.1/tcp/4001/p2p/12D3…"`. `"public"`:
        /// the well-known peers through which the public DHT is entered. They are asked only while
        /// dht is `"client"` or `"server"`, dht_protocol is that of the public network, and there is
        /// no swarm_key.
        bootstrap: Vec<String> = vec![PUBLIC_PEERS.into()];
        /// Further addresses at which peers reach the server, such as the address of a router in front.
        announce: Vec<String> = Vec::new();
        /// The file of the server's key pair, created at the first start. Empty: a new key at each
        /// start.
        identity: PathBuf = PathBuf::new();
        /// The key file of a private network. Peers without this key cannot connect. Empty: no
        /// private network.
        swarm_key: PathBuf = PathBuf::new();
        /// DHT mode: `"off"`; `"client"` finds providers of the content that browsers request, and
        /// announces available pages; `"server"` also stores records for other peers, and must be
        /// publicly reachable.
        dht: DhtRole = DhtRole::Off;
        /// The protocol name of the DHT: the public network, or `"/ipfs/lan/kad/1.0.0"`.
        dht_protocol: String = PUBLIC_DHT.into();
        /// Memory for blocks that may be requested again. When it is full, the least recently read
        /// block is dropped. No block of a page stays when its last holder has left. 0: no block
        /// stays after the last request for its page. Blocks in transfer take at most 32 MiB more.
        cache_bytes_max: u64 = 64 << 20, "bytes",
            "The least recently read block is dropped, and fetched again for the next request.";
        /// Pages whose content is transferred to libp2p peers at the same time. The other direction
        /// has the same bound. When the limit is reached, peers get DONT_HAVE, and browsers wait until the
        /// transfer of another page ends.
        #[serde(skip)]
        #[doc(hidden)]
        pages_max: u32 = 64, "pages",
            "The page waits until the transfer of another page ends.";
        /// Wants of one peer. Further wants are answered with DONT_HAVE if the peer asked for such
        /// answers, and ignored otherwise.
        #[serde(skip)]
        #[doc(hidden)]
        wants_per_peer_max: u32 = 256, "blocks",
            "The want is answered with DONT_HAVE if the peer requested that, or else ignored.";
        /// Connections with peers. Further connections are refused.
        #[serde(skip)]
        #[doc(hidden)]
        connections_max: u32 = 256, "connections",
            "The connection is refused. Near the limit, connections without recent blocks are closed.";
    }
}

/// DHT mode: off, client or server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DhtRole {
    /// The server does not use the DHT.
    #[default]
    Off,
    /// The server finds providers of requested content, and announces available pages.
    Client,
    /// The server also stores records for other peers.
    Server,
}

impl P2pSettings {
    /// Whether the gateway runs.
    pub fn is_on(&self) -> bool {
        !self.listen.is_empty() || self.named_peers().next().is_some()
    }

    /// The addresses in `bootstrap`.
    pub(crate) fn named_peers(&self) -> impl Iterator<Item = &String> {
        self.bootstrap.iter().filter(|peer| *peer != PUBLIC_PEERS)
    }

    /// Whether the gateway enters the public DHT through its well-known peers. Never without a DHT, or
    /// in a private network.
    pub(crate) fn uses_public_peers(&self) -> bool {
        let is_public = self.dht_protocol == PUBLIC_DHT && self.swarm_key.as_os_str().is_empty();
        let is_named = self.bootstrap.iter().any(|peer| peer == PUBLIC_PEERS);
        is_named && is_public && self.dht != DhtRole::Off
    }
}

section! {
    "neighbours";
    /// Other servers, whose pages are found from here, as those of this server are found there.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct NeighbourSettings {
        /// Origins of other servers, such as `"https://a.example"`; at most 32. A page that someone has
        /// open there is found by the visitors of this server. The server tells them which pages
        /// are available here: `GET /neighbours/pages`. http: is for private networks. Empty: no
        /// neighbours, and no such route.
        servers: Vec<String> = Vec::new();
        /// The sites whose visitors may open pages of this server: `"neighbours"`, those named above,
        /// and with depth 2 those that they name; `"any"` site; or `"none"`.
        guests: Guests = Guests::Neighbours;
        /// 1: the servers named above. 2: also the servers that those name in their `GET /limits`; at
        /// most 512 altogether.
        depth: u8 = 1;
        /// Connections of guests of one process, and a quarter of it from one site. Further
        /// connections are refused.
        #[serde(skip)]
        #[doc(hidden)]
        guests_max: u32 = 10_000, "connections",
            "The connection is refused.";
    }
}

/// The sites, other than this server's own, whose visitors may open pages here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Guests {
    /// The neighbours.
    #[default]
    Neighbours,
    /// Every site.
    Any,
    /// No site.
    None,
}

section! {
    "pages";
    /// The operator's settings for pages.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct PageSettings {
        /// A file with the CIDs of blocked pages, one on each line, also in a link or path; text
        /// after # is a comment. An entry blocks the content under every form of its CID. A change
        /// applies within two seconds: peers that have the page open are notified and removed from
        /// it. Empty: no blocked pages.
        deny_file: PathBuf = PathBuf::new();
        /// Address for reports, linked from each page: https:, http: or mailto:, such as
        /// `"mailto:abuse@example.org?subject={cid}"`. `{cid}` becomes the page's CID. Empty: no
        /// link.
        report: String = String::new();
        /// Whether `GET /status` shows everyone how many people are here, how many pages are
        /// available, and for how long the server has run. Nothing on that page identifies anyone.
        status_page: bool = false;
        /// Whether `watchfire_page_referrers_total` counts loads by the host of the page with the link, for at most
        /// 32 hosts a day. The host may say who came, as that of a small group's own site does.
        count_referrers: bool = false;
        /// How long the server remembers when a page was last available. It tells this to visitors
        /// of a page that is unavailable. Kept in memory, for at most 100,000 pages. `"0s"` turns
        /// it off.
        #[serde(with = "humantime_serde")]
        last_available_kept: Duration = Duration::ZERO;
    }
}

section! {
    "limits", never_zero [blocks_in_flight_max];
    /// Limits on the resources of pages and sprites.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct PageLimits {
        /// Largest page that a browser may share or load, in bytes. The browser refuses a larger
        /// one.
        page_bytes_max: u64 = 4 << 30, "bytes",
            "The browser refuses to share or load the page.";
        /// Blocks that a browser requests from one peer at a time.
        blocks_in_flight_max: u16 = 32, "blocks",
            "The browser requests no more from that peer until some have arrived.";
        /// Peers of one page. Further joins are refused.
        peers_per_page_max: u32 = 10_000, "peers",
            "The join is refused: \"page full\".";
        /// Open pages. Joins of further pages are refused.
        pages_max: u32 = 100_000, "pages",
            "The join is refused: \"too many pages\".";
        /// Open pages of one address; of IPv6, one network of 64 bits. Further joins are refused.
        /// Several processes count together; a few pages more may open until all processes know of
        /// the last ones.
        pages_per_address_max: u32 = 5_000, "pages",
            "The join is refused: \"too many pages of this address\".";
        /// Data of one relayed frame, in bytes. A larger frame is refused.
        #[serde(skip)]
        #[doc(hidden)]
        relay_frame_bytes_max: u32 = 64 << 10, "bytes",
            "The frame is refused: \"relay frame too large\".";
        /// Relayed bytes per second of one page. Beyond it, a frame is refused with the time to
        /// wait.
        relay_bytes_per_second_per_page: u64 = 128 << 20, "bytes a second",
            "The frame is refused with the time to wait: \"relay budget\".";
        /// Relayed bytes per second that one peer may send. Beyond it, a frame is refused with the
        /// time to wait.
        relay_bytes_per_second_per_peer: u64 = 32 << 20, "bytes a second",
            "The frame is refused with the time to wait: \"relay budget\".";
        /// Relayed bytes per second that all peers of one address may send. Beyond it, a frame is
        /// refused with the time to wait. Several processes count together, to within a sixteenth
        /// of a quarter second's bytes.
        relay_bytes_per_second_per_address: u64 = 64 << 20, "bytes a second",
            "The frame is refused with the time to wait: \"relay budget\".";
        /// Relayed bytes per day that all peers of one address may send; 0 for no limit. A day
        /// begins with the first relayed byte of the address. Beyond it, a frame is refused with
        /// the time to wait.
        relay_bytes_per_day_per_address: u64 = 0, "bytes a day",
            "The frame is refused with the time to wait: \"relay budget\". 0 means that there is no such limit.";
        /// One signal between two peers that set up a direct connection, in bytes. A larger one is
        /// refused.
        #[serde(skip)]
        #[doc(hidden)]
        signal_bytes_max: u32 = 16 << 10, "bytes",
            "The signal is refused: \"signal too large\".";
        /// Signals per second of one peer, with bursts of five seconds' worth. Further signals are
        /// refused with the time to wait.
        #[serde(skip)]
        #[doc(hidden)]
        signals_per_second_per_peer: u16 = 20, "signals a second",
            "The signal is refused with the time to wait: \"too many signals\".";
        /// Grids of sprites. Joins of further grids are refused.
        #[serde(skip)]
        #[doc(hidden)]
        grids_max: u32 = 10_000, "grids",
            "The join is refused: \"too many grids\".";
        /// Slots of all grids together, including reserved ones. Further joins are refused.
        #[serde(skip)]
        #[doc(hidden)]
        grid_peers_max: u32 = 1_000_000, "peers",
            "The join is refused: \"grids full\".";
        /// One throw of a sprite, in bytes. A larger one is refused.
        #[serde(skip)]
        #[doc(hidden)]
        throw_bytes_max: u32 = 1_024, "bytes",
            "The throw is refused: \"throw too large\".";
        /// Sprites that wait for one peer's next poll. When the limit is reached, a throw returns
        /// to its thrower.
        #[serde(skip)]
        #[doc(hidden)]
        arrivals_queued_max: u32 = 64, "sprites",
            "A throw returns to its thrower until the neighbour has polled.";
    }
}

section! {
    "socket";
    /// The times of sprites.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct SpriteSettings {
        /// How long a sprites poll over plain HTTP waits before it gets an empty response.
        #[serde(with = "humantime_serde")]
        sprites_window: Duration = Duration::from_secs(120);
        /// How long the slot of a client that left a grid of sprites stays reserved. A reload gets
        /// it back.
        #[serde(with = "humantime_serde")]
        reservation_period: Duration = Duration::from_secs(10);
    }
}

section! {
    "channels";
    /// The rooms.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct RoomSettings {
        /// Whether any client may join the topics rooms:* and send messages to everyone there. The
        /// chat of the web client needs it. Such rooms are an open relay: on a public server, leave
        /// them off.
        open_rooms: bool = false;
    }
}
