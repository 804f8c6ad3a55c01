//! Everything that is an ordinary request.

mod admin;
mod app_shell;
mod limits;
mod longpoll;
mod site_shell;
pub(crate) mod sprites;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::get;
use http::header;

use crate::metrics::Exposition;
use crate::world::World;

/// What the routes share.
#[derive(Clone)]
pub(crate) struct Site {
    pub world: Arc<World>,
    pub exposition: Arc<Exposition>,
}

/// The routes every server has, with an application's own beside them.
pub(crate) fn router(site: Site, with_pages: bool, own: Router) -> Router {
    let mut router = Router::new()
        .route(&site.world.longpoll_path, longpoll::routes())
        .route(&site.world.websocket_path, axum::routing::any(longpoll::not_an_upgrade))
        .route("/limits", get(limits::show))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz));
    if with_pages {
        router = router
            .merge(admin::routes(&site))
            .route("/", get(app_shell::index))
            .route("/chat", get(app_shell::index))
            .route("/p/{*page}", get(app_shell::index))
            .route("/frame", get(app_shell::frame))
            .merge(sprites::routes())
            .fallback(app_shell::asset);
    }
    let router = router.with_state(site.clone()).merge(own);
    // Around everything, an application's own routes too.
    if with_pages { router.layer(from_fn_with_state(site, site_shell::keep_apart)) } else { router }
}

async fn healthz() -> &'static str {
    "ok\n"
}

async fn metrics(State(site): State<Site>) -> impl IntoResponse {
    let openmetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, openmetrics)], site.exposition.render(&site.world.cluster).await)
}
