//! Sites: pages that are folders of web pages, each shown on an origin of its own.
//!
//! [`SiteHosts`] decides from the host of a request whether it is for the app or for a site. On a
//! site's host the server has only a shell and a service worker: see [`restrict_site_hosts`].

mod app;
mod hosts;
mod shell;

pub(crate) use app::routes as app_routes;
pub use hosts::SitesError;
pub(crate) use hosts::{RequestTarget, SiteHosts};
pub(crate) use shell::{SiteShell, restrict_site_hosts};
