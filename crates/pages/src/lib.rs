//! Pages, as a feature of a Watchfire server: content that is available while a browser has it open.
//!
//! [`Pages`] adds the web client, the topics `page:*`, `sprites:*` and `site`, the hosts of sites, the
//! gateway to libp2p peers, pages of other servers, and STUN. The server stores nothing: it introduces the peers of a page to
//! each other, and relays what they cannot send directly.
//!
//! ```
//! use watchfire::{Server, Settings};
//! use watchfire_pages::Pages;
//!
//! let mut settings = Settings::default();
//! settings.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
//! let server = Server::new(settings).with(Pages::new()).start().unwrap();
//! ```

#[cfg(test)]
mod fakes;
mod feature;
mod figures;
mod format;
mod gateway;
mod neighbours;
mod page;
mod page_loads;
mod rooms;
mod settings;
mod sites;
mod sprites;
pub mod stun;
mod visitors;
mod web_client;

pub use feature::{Pages, PagesError, RunningPages};
pub use gateway::GatewayError;
#[doc(hidden)]
pub use gateway::host_settings;
pub use neighbours::NeighbourError;
#[doc(hidden)]
pub use neighbours::{Filter, FilterError};
pub use page::DenyFileError;
pub use settings::{
    DhtRole, Guests, NeighbourSettings, P2pSettings, PageLimits, PageSettings, RoomSettings,
    SitesSettings, SpriteSettings, StunSettings,
};
pub use sites::SitesError;
#[doc(hidden)]
pub use sprites::check_grid_name;
