//! Puts the server together: settings, features, an application's channels and routes, and the
//! shards that run them.
//!
//! [`Server::start_as`] has three steps. [`Plan::check`](plan::Plan::check) reads everything that the
//! settings name, [`Assembly::build`](assembly::Assembly::build) builds all parts on the foundation of
//! the process, and [`start`](start::start) opens the listeners and starts the event loops and threads.

mod assembly;
mod base_parts;
mod checks;
mod plan;
mod role;
mod running;
mod start;
mod start_error;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;

use crate::channel_api::{Channel, Connect, Connected, Endpoint, Refused, Registry};
use crate::feature::Feature;
use crate::memory::ReturnMemory;
use crate::settings::Settings;
use assembly::Assembly;
use plan::Plan;

pub(crate) use self::checks::{check_listen, cores, shards};
pub(crate) use self::role::{ProcessRole, SharedListeners, random_secret};
pub use self::running::RunningServer;
pub use self::start_error::StartError;

/// An application's action once clients can connect.
type OnStart = Box<dyn FnOnce(&Endpoint)>;

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
    settings: Settings,
    features: Vec<Box<dyn Feature>>,
    registry: Registry,
    routes: Router,
    on_start: Vec<OnStart>,
    return_memory: Option<ReturnMemory>,
    /// The first channel with an invalid pattern, which [`Server::start`] reports.
    bad_pattern: Option<StartError>,
}

impl Server {
    /// A server without channels and features.
    pub fn new(settings: Settings) -> Self {
        Server {
            settings,
            registry: Registry::default(),
            routes: Router::new(),
            features: Vec::new(),
            on_start: Vec::new(),
            return_memory: None,
            bad_pattern: None,
        }
    }

    /// Adds a channel for the topics of a pattern: an exact topic, or a prefix with one `*` at the
    /// end. The first pattern that matches a topic wins.
    pub fn channel(mut self, pattern: &str, channel: impl Channel) -> Self {
        if let Err(source) = self.registry.add(pattern, channel) {
            let pattern = pattern.to_owned();
            self.bad_pattern.get_or_insert(StartError::Pattern { pattern, source });
        }
        self
    }

    /// Sets the rule that accepts or refuses sockets. Without a rule, all are accepted.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use watchfire::{Connected, Refused, Server, Settings};
    ///
    /// let server = Server::new(Settings::default()).on_connect(|connect| {
    ///     let name = connect.params.text("name").ok_or(Refused)?;
    ///     let id = Some(format!("users:{name}"));
    ///     Ok(Connected { id, assigns: Some(Arc::new(name.to_owned())) })
    /// });
    /// ```
    pub fn on_connect(
        mut self,
        rule: impl Fn(&Connect<'_>) -> Result<Connected, Refused> + Send + Sync + 'static,
    ) -> Self {
        self.registry.on_connect = Arc::new(rule);
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
        self.on_start.push(Box::new(act));
        self
    }

    /// Sets the function that returns the allocator's free memory to the operating system. It is
    /// called after a crowd of clients has left, on a thread of its own. Which function does that
    /// depends on the allocator of the program; with glibc it is `malloc_trim`.
    pub fn return_memory_with(mut self, act: fn()) -> Self {
        self.return_memory = Some(act);
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
        self.routes = self.routes.merge(routes);
        self
    }

    /// Gives the server a feature: its channels, its routes, and everything else that it adds.
    pub fn with(mut self, feature: impl Feature + 'static) -> Self {
        self.features.push(Box::new(feature));
        self
    }

    /// Opens the listeners and starts the shards, in this process only: see [`Server::run`].
    pub fn start(self) -> Result<RunningServer, StartError> {
        check_listen(&self.settings)?;
        self.start_as(ProcessRole::alone()?)
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
        check_listen(&self.settings)?;
        checks::check(&self.settings)?;
        let mut lines = Vec::new();
        for feature in &self.features {
            lines.extend(feature.check(&self.settings).map_err(StartError::Feature)?);
        }
        lines.extend(Plan::describe(&self.settings)?);
        Ok(lines)
    }

    /// Starts this process of the server.
    pub(crate) fn start_as(mut self, mut role: ProcessRole) -> Result<RunningServer, StartError> {
        self.bad_pattern.take().map_or(Ok(()), Err)?;
        let plan = Plan::check(&self.settings, role.inherited.is_some())?;
        let listeners = match role.listeners.take() {
            Some(listeners) => listeners,
            None => self.listen(role.is_successor)?,
        };
        let assembly = Assembly::build(&mut self, &plan, &mut role, listeners)?;
        start::start(self, plan, role, assembly)
    }

    /// Opens the listeners of all features.
    pub(crate) fn listen(&self, is_successor: bool) -> Result<SharedListeners, StartError> {
        let open = |feature: &Box<dyn Feature>| feature.listen(&self.settings, is_successor);
        let opened = self.features.iter().map(open).collect::<Result<_, _>>();
        Ok(SharedListeners(opened.map_err(StartError::Feature)?))
    }

    /// The addresses of the features' own listeners, with the ports that were bound.
    pub(crate) fn addresses_of(
        &self,
        listeners: &SharedListeners,
    ) -> Vec<(&'static str, Vec<SocketAddr>)> {
        let addresses = |listeners: &Vec<TcpListener>| {
            listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
        };
        let pairs = self.features.iter().zip(&listeners.0);
        pairs.map(|(feature, listeners)| (feature.name(), addresses(listeners))).collect()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }
}
