//! Puts the server together: settings, features, an application's channels and routes, and the
//! shards that run them.
//!
//! [`Server::start_as`] has three steps. [`Plan::check`](plan::Plan::check) reads everything that the
//! settings name, [`Assembly::build`](assembly::Assembly::build) builds all parts on the foundation of
//! the process, and [`start`](start::start) opens the listeners and starts the event loops and threads.

mod assembly;
mod base_parts;
mod checks;
mod definition;
mod plan;
mod process_role;
mod running;
mod start;
mod start_error;

use std::sync::Arc;

use axum::Router;
use watchfire_settings::SectionType;

use crate::channel_api::{Channel, Connect, Connected, Endpoint, Refused, Registry};
use crate::feature::Feature;
use crate::settings::Settings;
use assembly::Assembly;
use definition::Definition;
use plan::Plan;

pub(crate) use self::checks::{cores, shards};
pub(crate) use self::definition::FeatureAddresses;
pub(crate) use self::process_role::{ProcessRole, SharedListeners, random_secret};
pub(crate) use self::running::Panicked;
pub use self::running::RunningServer;
pub use self::start_error::StartError;

/// A server that has not started.
///
/// ```
/// use watchfire::{Server, Settings};
///
/// let mut settings = Settings::default();
/// settings.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
/// let server = Server::new(settings).start().unwrap();
/// assert_ne!(server.address().port(), 0);
/// ```
pub struct Server {
    definition: Definition,
    /// The first fault of what it was given, which [`Server::start`] reports.
    fault: Option<StartError>,
}

impl Server {
    /// A server without channels and features.
    pub fn new(settings: Settings) -> Self {
        let definition = Definition {
            settings,
            features: Vec::new(),
            registry: Registry::default(),
            routes: Router::new(),
            on_start: Vec::new(),
            return_memory: None,
        };
        Server { definition, fault: None }
    }

    /// Adds a channel for the topics of a pattern: an exact topic, or a prefix with one `*` at the
    /// end. The first pattern that matches a topic wins.
    pub fn channel(mut self, pattern: &str, channel: impl Channel) -> Self {
        if let Err(cause) = self.definition.registry.add(pattern, channel) {
            let pattern = pattern.to_owned();
            self.fault.get_or_insert(StartError::Pattern { pattern, cause });
        }
        self
    }

    /// Sets the rule that accepts or refuses sockets. Without a rule, all are accepted.
    ///
    /// ```
    /// use watchfire::{Connected, Refused, Server, Settings};
    ///
    /// let server = Server::new(Settings::default()).on_connect(|connect| {
    ///     let name = connect.params.text("name").ok_or(Refused::because("no name"))?;
    ///     Ok(Connected::default().with_id(format!("users:{name}")).with_assigns(name.to_owned()))
    /// });
    /// ```
    pub fn on_connect(
        mut self,
        rule: impl Fn(&Connect<'_>) -> Result<Connected, Refused> + Send + Sync + 'static,
    ) -> Self {
        self.definition.registry.on_connect = Arc::new(rule);
        self
    }

    /// Adds an action for the start of the server, in each process that serves clients. With the
    /// handle, an application's own tasks can broadcast and push.
    ///
    /// ```
    /// use watchfire::{Server, Settings};
    ///
    /// let mut settings = Settings::default();
    /// settings.server.listen = vec!["127.0.0.1:0".parse().unwrap()];
    /// let (sender, handles) = std::sync::mpsc::channel();
    /// let server = Server::new(settings)
    ///     .on_start(move |endpoint| sender.send(endpoint.clone()).unwrap())
    ///     .start()
    ///     .unwrap();
    /// let note = serde_json::json!({ "from": "a task" });
    /// handles.recv().unwrap().broadcast("orders:42", "note", note).unwrap();
    /// ```
    pub fn on_start(mut self, act: impl FnOnce(&Endpoint) + 'static) -> Self {
        self.definition.on_start.push(Box::new(act));
        self
    }

    /// Sets the function that returns the allocator's free memory to the operating system. It is
    /// called after a crowd of clients has left, on a thread of its own. Which function does that
    /// depends on the allocator of the program; with glibc it is `malloc_trim`.
    pub fn return_memory_with(mut self, act: fn()) -> Self {
        self.definition.return_memory = Some(act);
        self
    }

    /// Adds an application's own HTTP routes.
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use watchfire::{Server, Settings};
    ///
    /// let routes = Router::new().route("/hello", get(async || "hello"));
    /// let server = Server::new(Settings::default()).routes(routes);
    /// ```
    pub fn routes(mut self, routes: Router) -> Self {
        self.definition.routes = self.definition.routes.merge(routes);
        self
    }

    /// Gives the server a feature: its channels, its routes, and everything else that it adds.
    pub fn with(mut self, feature: impl Feature + 'static) -> Self {
        let name = feature.name();
        if self.definition.features.iter().any(|other| other.name() == name) {
            self.fault.get_or_insert(StartError::FeatureTwice { name });
        }
        self.definition.features.push(Box::new(feature));
        self
    }

    /// Opens the listeners and starts the shards, in this process only: see [`Server::run`].
    pub fn start(self) -> Result<RunningServer, StartError> {
        self.check_listen()?;
        self.start_as(ProcessRole::alone().map_err(StartError::NoRandomness)?)
    }

    /// Checks the settings and the files that they name, without starting anything. Returns what the
    /// server would do about its features and TLS, a line for each part.
    ///
    /// ```
    /// use watchfire::{Server, Settings};
    ///
    /// let mut settings = Settings::default();
    /// assert!(Server::new(settings.clone()).check().is_ok());
    /// settings.server.public_url = "example.org".into();
    /// let error = Server::new(settings).check().unwrap_err();
    /// assert!(error.to_string().starts_with("cannot use server.public_url"));
    /// ```
    pub fn check(&self) -> Result<Vec<String>, StartError> {
        self.check_listen()?;
        checks::check(&self.definition.settings)?;
        let mut lines = Vec::new();
        for feature in &self.definition.features {
            lines.extend(feature.check(&self.definition.settings).map_err(StartError::Feature)?);
        }
        lines.extend(Plan::describe(&self.definition.settings, &self.definition.domains())?);
        self.definition.check_features()?;
        Ok(lines)
    }

    /// Asks NATS, if the server has several machines, whether a start would succeed. It changes nothing there.
    /// Returns a line for each fact about the start.
    pub async fn check_cluster(&self) -> Result<Vec<String>, crate::RunError> {
        let settings = &self.definition.settings;
        if !settings.cluster.is_on() {
            return Ok(Vec::new());
        }
        crate::machines::check_histories(settings, false).await?;
        Ok(vec!["cluster: NATS answers".into()])
    }

    /// Starts this process of the server.
    pub(crate) fn start_as(mut self, mut role: ProcessRole) -> Result<RunningServer, StartError> {
        self.fault.take().map_or(Ok(()), Err)?;
        let domains = self.definition.domains();
        let plan = Plan::check(&self.definition.settings, &domains, role.inherited.is_some())?;
        self.definition.check_features()?;
        let listeners = match role.listeners.take() {
            Some(listeners) => listeners,
            None => self.listen(role.is_successor)?,
        };
        let assembly = Assembly::build(&mut self.definition, &plan, &mut role, listeners)?;
        start::start(self.definition, plan, role, assembly)
    }

    pub(crate) fn check_listen(&self) -> Result<(), StartError> {
        self.definition.check_listen()
    }

    pub(crate) fn check_features(&self) -> Result<(), StartError> {
        self.definition.check_features()
    }

    pub(crate) fn section_types(&self) -> Vec<SectionType> {
        self.definition.section_types()
    }

    pub(crate) fn domains(&self) -> Vec<String> {
        self.definition.domains()
    }

    pub(crate) fn listen(&self, is_successor: bool) -> Result<SharedListeners, StartError> {
        self.definition.listen(is_successor)
    }

    pub(crate) fn addresses_of(&self, listeners: &SharedListeners) -> FeatureAddresses {
        self.definition.addresses_of(listeners)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.definition.settings
    }

    pub(crate) fn set_settings(&mut self, settings: Settings) {
        self.definition.settings = settings;
    }
}
