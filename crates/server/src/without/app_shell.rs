//! Without the feature `pages`, there is no web client.

use std::sync::Arc;

use axum::Router;

use crate::shard::Shared;
use crate::sites::SiteHosts;

pub(super) fn routes(_: Arc<SiteHosts>) -> Router {
    Router::new()
}

pub(super) fn restrict_sites(router: Router, _: &Shared) -> Router {
    router
}
