//! The channels that every Watchfire server has.

mod page;
mod rooms;
mod site;
mod sprites;

pub(crate) use page::{PageChannel, check_cid};
pub(crate) use rooms::Rooms;
pub(crate) use site::{SITE_TOPIC, Site};
pub(crate) use sprites::Sprites;
