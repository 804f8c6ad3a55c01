//! The channels that every Watchfire server has.

mod page;
mod rooms;
mod site;

pub(crate) use page::PageChannel;
pub(crate) use rooms::Rooms;
pub(crate) use site::{SITE_TOPIC, Site};
