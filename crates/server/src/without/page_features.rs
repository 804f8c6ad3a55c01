//! Without the feature `pages`, a server has the channels of its application.

use std::sync::Arc;

use axum::Router;

use crate::cluster::{ClusterPart, Reporter};
use crate::feature::{Feature, Foundation, Started};
use crate::metrics::MetricSource;
use crate::not_built::NotBuilt;
use crate::settings::Settings;
use crate::sites::SiteHosts;

/// A server with pages cannot start.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct PagesError(NotBuilt);

const NOT_BUILT: PagesError = PagesError(NotBuilt { setting: "pages", feature: "pages" });

pub(crate) fn site_hosts(_: &Settings) -> Result<SiteHosts, PagesError> {
    Err(NOT_BUILT)
}

pub(crate) enum PageFeatures {}

impl PageFeatures {
    pub fn check(_: &Settings) -> Result<Vec<String>, PagesError> {
        Err(NOT_BUILT)
    }

    pub fn new(_: Foundation<'_>) -> Result<Self, PagesError> {
        Err(NOT_BUILT)
    }

    pub fn features(&self) -> &[Arc<dyn Feature>] {
        match *self {}
    }

    pub fn reporter(&self) -> Arc<dyn Reporter> {
        match *self {}
    }

    pub fn metric_sources(&self) -> Vec<Arc<dyn MetricSource>> {
        match *self {}
    }

    pub fn cluster_part(&self) -> Arc<dyn ClusterPart> {
        match *self {}
    }

    pub fn admin_routes(&self) -> Router {
        match *self {}
    }

    pub fn start(self, _: &Started<'_>) -> Result<RunningPages, PagesError> {
        match self {}
    }
}

pub(crate) enum RunningPages {}

impl RunningPages {
    pub fn gateway_addresses(&self) -> Vec<String> {
        match *self {}
    }

    pub fn stop_gateway(&mut self) {
        match *self {}
    }
}
