//! Everything that a server is given before it starts.

use std::net::{SocketAddr, TcpListener};

use axum::Router;

use super::role::SharedListeners;
use super::start_error::StartError;
use crate::channel_api::{Endpoint, Registry};
use crate::feature::Feature;
use crate::memory::ReturnMemory;
use crate::settings::Settings;

/// An application's action once clients can connect.
pub(super) type OnStart = Box<dyn FnOnce(&Endpoint)>;

/// The addresses of the features' own listeners, by the names of the features.
#[derive(Clone, Debug)]
pub(crate) struct FeatureAddresses(Vec<(&'static str, Vec<SocketAddr>)>);

impl FeatureAddresses {
    /// The addresses of one feature; none if there is no such feature.
    pub fn of(&self, feature: &str) -> &[SocketAddr] {
        let found = self.0.iter().find(|(name, _)| *name == feature);
        found.map_or(&[], |(_, addresses)| addresses)
    }
}

/// The settings of a server, and what an application gave it.
pub(super) struct Given {
    pub settings: Settings,
    pub features: Vec<Box<dyn Feature>>,
    pub registry: Registry,
    pub routes: Router,
    pub on_start: Vec<OnStart>,
    pub return_memory: Option<ReturnMemory>,
}

impl Given {
    /// Refuses settings that only a feature uses which the server was not given.
    pub fn check_features(&self) -> Result<(), StartError> {
        let has_api = self.features.iter().any(|feature| feature.name() == "api");
        match self.settings.api.is_on() && !has_api {
            true => Err(StartError::NoFeature { setting: "the keys of [api]", feature: "api" }),
            false => Ok(()),
        }
    }

    /// Opens the listeners of all features.
    pub fn listen(&self, is_successor: bool) -> Result<SharedListeners, StartError> {
        let features = self.features.iter();
        let opened = features.map(|feature| feature.listen(&self.settings, is_successor));
        let opened = opened.collect::<Result<_, _>>();
        Ok(SharedListeners(opened.map_err(StartError::Feature)?))
    }

    /// The addresses of the features' own listeners, with the ports that were bound.
    pub fn addresses_of(&self, listeners: &SharedListeners) -> FeatureAddresses {
        let addresses = |listeners: &Vec<TcpListener>| {
            listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
        };
        let pairs = self.features.iter().zip(&listeners.0);
        let named = pairs.map(|(feature, listeners)| (feature.name(), addresses(listeners)));
        FeatureAddresses(named.collect())
    }
}
