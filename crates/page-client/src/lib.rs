//! A peer of a page on a Watchfire server, without a browser.
//!
//! A [`PageClient`] joins `page:<cid>` over a WebSocket and announces how much of the page is
//! stored here. It transfers Bitswap messages between a [`watchfire_p2p::Host`] and the other peers
//! of the page, through the server's relay. The host exchanges blocks with these peers as with
//! its libp2p peers. When the connection is lost, the client reconnects and joins again. The
//! protocol is specified in `docs/reference/protocols/page.md`.
//!
//! ```no_run
//! use std::sync::Arc;
//! use watchfire_page_client::{
//!     DirectLimit, DirectOptions, Have, PageClient, PageClientOptions, ServerUrl,
//!     WebTransportListener,
//! };
//! use watchfire_store::{LockedMemoryStore, Stores};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let server: ServerUrl = "http://localhost:4000".parse()?;
//! let page: watchfire_content::Cid = "bafkreigzafgemjeejks3vqyuo46ww2e22rt7utq5djikdofjtvnjl5zp6u".parse()?;
//! let store = Arc::new(LockedMemoryStore::new(1 << 20));
//! let host = watchfire_p2p::Host::start(Default::default(), Stores::default(), store).await?;
//! let options = PageClientOptions {
//!     connector: server.connector()?,
//!     home: Some(server),
//!     at: Vec::new(),
//!     page: page.clone(),
//!     have: Have::None,
//!     request_filter: None,
//!     join_params: serde_json::Value::Null,
//!     live: None,
//!     direct: Some(DirectOptions {
//!         limit: DirectLimit::new(64),
//!         web_transport: Some(Arc::new(WebTransportListener::new(None))),
//!     }),
//! };
//! let client = PageClient::start(&host, options);
//! host.fetch(page).await?.finished().await?;
//! client.set_have(Have::All);
//! # Ok(())
//! # }
//! ```
//!
//! With [`PageClientOptions::direct`], messages to a browser use WebTransport or a WebRTC data
//! channel once much is exchanged with it. The relay carries the others, and those of a connection
//! that breaks.
//!
//! With [`PageClientOptions::home`], the client also joins the page at a few servers that this one
//! names because the page is available there. With [`PageClientOptions::at`], it also joins it at those servers
//! while this one is lost or nobody there has the page.
//!
//! Absent on purpose: direct connections between two page clients. They are libp2p peers too.

mod assembler;
mod direct;
mod frame;
mod heads;
mod live_page;
mod messages;
mod outgoing;
mod page_client;
mod page_protocol;
mod recent_set;
mod segment;
mod server_url;
mod unread_blocks;
#[cfg(test)]
mod vectors;

pub use direct::{DirectLimit, DirectOptions, WebTransportListener};
pub use heads::{HeadMessage, HeadSender, LiveHeads, ReceivedHeads};
pub use live_page::{LiveChannel, LiveEnd, LiveEvent, LivePage, LivePageError};
pub use messages::{Counts, Have, Nodes};
pub use page_client::{
    ConnectionState, PageClient, PageClientOptions, PageStatus, open_websocket, page_cid,
};
pub use server_url::{Connection, Connector, ServerUrl, ServerUrlError};
