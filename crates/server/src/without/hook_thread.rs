//! Without the feature `hooks`, nobody sends questions to a backend.

use std::sync::Arc;

use super::error::HookError;
use super::handle::Hooks;
use crate::channel_api::Endpoint;
use crate::not_built::NotBuilt;

pub(crate) enum HookThread {}

impl HookThread {
    pub fn start(_: &Arc<Hooks>, _: &Endpoint) -> Result<Self, HookError> {
        Err(NotBuilt { setting: "hooks", feature: "hooks" }.into())
    }

    pub async fn finish(self) {
        match self {}
    }
}
