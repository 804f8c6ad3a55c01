//! The plan: the settings, and the files that they name, read before the server builds anything.

use std::sync::Arc;

use watchfire_auth::Auth;
use watchfire_channels::handshake::OriginPolicy;
use watchfire_hooks::Hooks;
use watchfire_sockets::SocketServerSettings;

use super::checks::{
    check, origins, proxy_protocol, public_host, socket_settings, trusted_proxies,
};
use super::start_error::StartError;
#[cfg(not(all(feature = "hooks", feature = "jwt")))]
use crate::not_built::NotBuilt;
use crate::proxies::TrustedProxies;
use crate::settings::{AuthSettings, HookSettings, Settings};
use crate::tls::{self, PreparedTls};

/// Reads the keys of clients' tokens. `None`: the settings have no key.
fn open_auth(settings: &AuthSettings) -> Result<Option<Arc<dyn Auth>>, StartError> {
    #[cfg(feature = "jwt")]
    return watchfire_auth::open(settings).map_err(StartError::Auth);
    #[cfg(not(feature = "jwt"))]
    match settings.is_on() {
        true => Err(StartError::NotBuilt(NotBuilt { setting: "auth", feature: "jwt" })),
        false => Ok(None),
    }
}

/// Reads the settings of the backend. `None`: there is none.
fn open_hooks(settings: &HookSettings) -> Result<Option<Arc<dyn Hooks>>, StartError> {
    #[cfg(feature = "hooks")]
    return watchfire_hooks::open(settings).map_err(StartError::Hooks);
    #[cfg(not(feature = "hooks"))]
    match (settings.is_on(), settings.connect) {
        (true, _) => Err(StartError::NotBuilt(NotBuilt { setting: "hooks", feature: "hooks" })),
        (false, true) => Err(StartError::Hooks(watchfire_hooks::HookError::NoBackend)),
        (false, false) => Ok(None),
    }
}

/// The meaning of the settings of one process.
pub(super) struct Plan {
    pub auth: Option<Arc<dyn Auth>>,
    pub hooks: Option<Arc<dyn Hooks>>,
    pub origins: OriginPolicy,
    pub public_host: Option<String>,
    pub proxies: Arc<TrustedProxies>,
    pub tls: Option<PreparedTls>,
    pub sockets: SocketServerSettings,
    pub random_seed: u64,
    pub websocket_path: String,
    pub longpoll_path: String,
}

impl Plan {
    /// Checks the settings of the server itself, and opens the files that they name.
    pub fn check(
        settings: &Settings,
        domains: &[String],
        inherits_listeners: bool,
    ) -> Result<Self, StartError> {
        check(settings)?;
        let proxies = trusted_proxies(&settings.server)?;
        let auth = open_auth(&settings.auth)?;
        let hooks = open_hooks(&settings.hooks)?;
        let origins = origins(&settings.socket.check_origin)?;
        let public_host = public_host(&settings.server.public_url)?;
        let tls = tls::open(settings, domains, inherits_listeners)?;
        let mut sockets = socket_settings(settings, &proxies)?;
        sockets.tls = tls.as_ref().map(|tls| tls.certificates());
        let mount = &settings.socket.mount;
        Ok(Plan {
            auth,
            hooks,
            origins,
            public_host,
            proxies,
            tls,
            sockets,
            random_seed: getrandom::u64().map_err(StartError::NoRandomness)?,
            websocket_path: format!("{mount}/websocket"),
            longpoll_path: format!("{mount}/longpoll"),
        })
    }

    /// Checks what [`Plan::check`] opens, and opens nothing. Returns a line for each part.
    pub fn describe(settings: &Settings, domains: &[String]) -> Result<Vec<String>, StartError> {
        open_auth(&settings.auth)?;
        open_hooks(&settings.hooks)?;
        origins(&settings.socket.check_origin)?;
        public_host(&settings.server.public_url)?;
        proxy_protocol(&settings.server, &trusted_proxies(&settings.server)?)?;
        Ok(tls::check(settings, domains)?)
    }
}
