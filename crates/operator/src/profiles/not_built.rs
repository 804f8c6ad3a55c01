//! Without the feature `profiles`, requests for profiles say so.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};

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
    pub fn new(link: PartLink, file: PathBuf) -> Self {
        if !file.as_os_str().is_empty() {
            tracing::warn!("cannot use admin.profile_file. {NOT_BUILT}");
        }
        ProfileCalls { link }
    }

    pub fn keep(&self) -> Option<mpsc::Sender<()>> {
        None
    }

    pub fn routes(self: Arc<Self>) -> Router {
        Router::new()
            .route("/debug/pprof/profile", get(not_built))
            .route("/debug/flamegraph", get(not_built))
            .route("/admin/profile", get(not_built))
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
