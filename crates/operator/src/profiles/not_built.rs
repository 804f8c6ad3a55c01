//! Without the feature `profiles`, requests for profiles say so.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use watchfire::feature::{ClusterPart, PartLink};
use watchfire::internal::refuse_call as refuse;
use watchfire_types::NodeId;

const NOT_BUILT: &str = "This program was built without the feature \"profiles\". To get profiles, \
    install another one: cargo install watchfire-cli --features profiles";

pub(crate) struct ProfileCalls {
    link: PartLink,
}

impl ProfileCalls {
    pub fn new(link: PartLink) -> Self {
        ProfileCalls { link }
    }

    pub fn routes(self: Arc<Self>) -> Router {
        Router::new()
            .route("/debug/pprof/profile", get(not_built))
            .route("/debug/flamegraph", get(not_built))
    }
}

async fn not_built() -> Response {
    refuse(StatusCode::NOT_IMPLEMENTED, "not built", NOT_BUILT)
}

impl ClusterPart for ProfileCalls {
    fn link(&self) -> &PartLink {
        &self.link
    }

    fn receive(&self, _: NodeId, _: &[u8]) -> Result<(), postcard::Error> {
        Ok(())
    }
}
