//! Checks of settings, and what the server reads out of them.

use std::net::SocketAddr;
use std::sync::Arc;

use ::http::Uri;
use ::http::uri::Authority;
use watchfire_channels::handshake::{OriginPattern, OriginPolicy};
use watchfire_sockets::{ProxyProtocol, SocketLimits, SocketServerSettings};

use super::start_error::StartError;
use crate::machines;
use crate::proxies::TrustedProxies;
use crate::settings::{ServerSettings, Settings};
use crate::traces;

/// Checks that there is a public address, and that the public addresses and those that features listen on do
/// not exclude each other.
pub(super) fn check_listen(
    public: &[SocketAddr],
    of_features: impl Iterator<Item = SocketAddr>,
) -> Result<(), StartError> {
    if public.is_empty() {
        return Err(StartError::NoAddress);
    }
    let all: Vec<SocketAddr> = public.iter().copied().chain(of_features).collect();
    let taken = all.iter().enumerate().find_map(|(at, address)| {
        let earlier = all[..at].iter().find(|earlier| excludes(**earlier, *address))?;
        Some(StartError::TakenAddress { address: *address, earlier: *earlier })
    });
    taken.map_or(Ok(()), Err)
}

/// Whether no second socket can listen on `other` beside one on `one`: it has the same port, and the
/// same address, or one of them is all addresses of its family. Port 0 is a port of the system's choice.
fn excludes(one: SocketAddr, other: SocketAddr) -> bool {
    let is_same_family = one.is_ipv4() == other.is_ipv4();
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    let is_same_port = one.port() == other.port() && one.port() != 0;
    is_same_port && (one == other || (is_same_family && is_any))
}

/// Whether clients can request paths below this one. They send other characters than these in
/// another form, and resolve `.` and `..` themselves (RFC 3986, 3.3).
fn is_mount(path: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/".contains(&byte);
    path.starts_with('/')
        && !path.ends_with('/')
        && path.bytes().all(is_part)
        && !path.split('/').any(|segment| matches!(segment, "." | ".."))
}

/// Checks settings that are not checked where they are used.
pub(super) fn check(settings: &Settings) -> Result<(), StartError> {
    let mount = &settings.socket.mount;
    if let Some(setting) = settings.zero() {
        return Err(StartError::Zero { setting });
    }
    if !is_mount(mount) {
        return Err(StartError::Mount { mount: mount.clone() });
    }
    if let Some(path) = settings.log.request_paths.iter().find(|path| !path.starts_with('/')) {
        return Err(StartError::RequestPath { path: path.clone() });
    }
    let has_users = settings.auth.is_on() || settings.hooks.connect;
    settings.channels.check(has_users).map_err(StartError::Rule)?;
    for rule in &settings.channels.rules {
        rule.check_hooks(settings.hooks.is_on()).map_err(StartError::Rule)?;
    }
    machines::check(&settings.cluster)?;
    traces::check(&settings.traces)?;
    Ok(())
}

/// The host and port of `server.public_url`; `None` if it is empty.
pub(super) fn public_host(url: &str) -> Result<Option<String>, StartError> {
    if url.is_empty() {
        return Ok(None);
    }
    let uri = url.parse::<Uri>().ok();
    let has_scheme = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.filter(has_scheme).and_then(|uri| uri.into_parts().authority);
    // An origin of a browser has neither a user nor a star.
    let is_origin = |authority: &Authority| {
        let text = authority.as_str();
        !text.contains('*') && format!("//{text}").parse::<OriginPattern>().is_ok()
    };
    match authority.filter(is_origin) {
        Some(authority) => Ok(Some(authority.to_string())),
        None => Err(StartError::PublicUrl { url: url.to_owned() }),
    }
}

pub(super) fn origins(entries: &[String]) -> Result<OriginPolicy, StartError> {
    match entries {
        [entry] if entry == "any" => Ok(OriginPolicy::Any),
        [entry] if entry == "same" => Ok(OriginPolicy::SameHost),
        entries => {
            let others = entries.iter().filter(|entry| *entry != "same");
            let patterns = others.map(|entry| entry.parse::<OriginPattern>());
            let patterns = patterns.collect::<Result<Vec<_>, _>>().map_err(StartError::Origin)?;
            Ok(match patterns.len() == entries.len() {
                true => OriginPolicy::List(patterns),
                false => OriginPolicy::SameHostOr(patterns),
            })
        }
    }
}

pub(super) fn trusted_proxies(server: &ServerSettings) -> Result<Arc<TrustedProxies>, StartError> {
    let proxies = TrustedProxies::new(&server.trusted_proxies, server.proxy_header);
    proxies.map(Arc::new).map_err(StartError::Network)
}

/// The addresses at which proxies name clients with the PROXY protocol.
pub(super) fn proxy_protocol(
    server: &ServerSettings,
    proxies: &Arc<TrustedProxies>,
) -> Result<ProxyProtocol, StartError> {
    if let Some(&address) = server.proxy_protocol.iter().find(|at| !server.listen.contains(at)) {
        return Err(StartError::ProxyProtocol { address });
    }
    let listen = server.listen.iter().enumerate();
    let listeners = listen.filter(|(_, at)| server.proxy_protocol.contains(at));
    let proxies = proxies.clone();
    Ok(ProxyProtocol {
        listeners: listeners.map(|(index, _)| index).collect(),
        trusts: Arc::new(move |address| proxies.trusts(address)),
    })
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The number of event loops of one process.
pub(crate) fn shards(settings: &Settings) -> usize {
    match usize::from(settings.server.shards) {
        0 => cores(),
        shards => shards,
    }
}

/// The settings of the socket server, without certificates.
pub(super) fn socket_settings(
    settings: &Settings,
    proxies: &Arc<TrustedProxies>,
) -> Result<SocketServerSettings, StartError> {
    let Settings { server, socket, limits, .. } = settings;
    let proxy_protocol = proxy_protocol(server, proxies)?;
    Ok(SocketServerSettings {
        listen: server.listen.clone(),
        shards: usize::from(server.shards),
        limits: SocketLimits {
            message_bytes_max: limits.frame_bytes_max as usize,
            partial_bytes_max: limits.partial_bytes_max as usize,
            queued_bytes_max: limits.queued_bytes_max as usize,
            idle_timeout: socket.idle_timeout,
            slow_timeout: socket.slow_timeout,
            crowded_timeout: socket.crowded_timeout,
            sockets_max: limits.sockets_max as usize,
            ..SocketLimits::default()
        },
        tls: None,
        proxy_protocol,
        inherited: None,
        is_paused: false,
    })
}
