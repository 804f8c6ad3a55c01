//! Everything that a server is given before it starts.

use std::net::{SocketAddr, TcpListener};

use axum::Router;

use watchfire_settings::SectionType;

use super::checks::check_listen;
use super::process_role::SharedListeners;
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
pub(super) struct Definition {
    pub settings: Settings,
    pub features: Vec<Box<dyn Feature>>,
    pub registry: Registry,
    pub routes: Router,
    pub on_start: Vec<OnStart>,
    pub return_memory: Option<ReturnMemory>,
}

impl Definition {
    /// Checks that the server and its features can listen on all their addresses.
    pub fn check_listen(&self) -> Result<(), StartError> {
        let of_features =
            self.features.iter().flat_map(|feature| feature.addresses(&self.settings));
        check_listen(&self.settings.server.listen, of_features)
    }

    /// Checks that each section of the settings has a feature that reads it, that each feature has
    /// the others that it needs, and that no rule of the settings has a topic of a feature.
    pub fn check_features(&self) -> Result<(), StartError> {
        for feature in &self.features {
            let topics = feature.topics(&self.settings);
            self.settings.channels.check_beside(&topics).map_err(StartError::Rule)?;
        }
        let read = self.section_types();
        let mut set = self.settings.of_features.types();
        if let Some(unread) = set.find(|set| !read.iter().any(|read| read == set)) {
            let (section, feature) = (unread.name(), unread.crate_name());
            return Err(StartError::Unread { section, feature });
        }
        let mut features = self.features.iter();
        features
            .try_for_each(|feature| feature.check_beside(&self.settings, &self.features))
            .map_err(StartError::Feature)
    }

    /// The sections that the features read.
    pub fn section_types(&self) -> Vec<SectionType> {
        self.features.iter().flat_map(|feature| feature.sections()).collect()
    }

    /// The domains whose subdomains are hosts of this server.
    pub fn domains(&self) -> Vec<String> {
        self.features.iter().filter_map(|feature| feature.domain(&self.settings)).collect()
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
