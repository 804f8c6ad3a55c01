//! The servers at which a page is joined beside its own: those of its link, and those where its own server says
//! that it is available.

use std::time::Duration;

use futures::future::select_all;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep};
use watchfire_p2p::ExternalTransport;
use watchfire_types::PeerId;

use super::{ConnectionState, PageClient, PageClientOptions, PageStatus};
use crate::messages::Have;
use crate::server_url::ServerUrl;

/// Most servers at which a page is joined beside its own. Further ones are ignored.
const SERVERS_MAX: usize = 3;
/// When the own server is lost for this long, the page is joined at those of its link.
const LOST_MAX: Duration = Duration::from_secs(1);

/// Joins a page at the servers that its link and its own server name.
pub(super) struct Elsewhere {
    /// The page's own server.
    pub home: ServerUrl,
    pub transport: ExternalTransport,
    /// The options of the clients at other servers, apart from the connector and the stored part.
    pub options: PageClientOptions,
}

struct Client {
    server: ServerUrl,
    client: PageClient,
    status: watch::Receiver<PageStatus>,
}

impl Client {
    fn has_failed(&self) -> bool {
        use ConnectionState::{Disconnected, Rejected};
        matches!(self.status.borrow().connection, Rejected(_) | Disconnected(_))
    }
}

impl Elsewhere {
    /// Runs until the client at the own server, with the status `home`, has ended. `all` is the status of
    /// all clients together.
    pub(super) async fn run(
        self,
        mut home: watch::Receiver<PageStatus>,
        mut have: watch::Receiver<Have>,
        mut banned: broadcast::Receiver<PeerId>,
        all: watch::Sender<PageStatus>,
    ) {
        let mut clients: Vec<Client> = Vec::new();
        let mut tried = Vec::new();
        let mut lost_at = None;
        loop {
            let status = home.borrow_and_update().clone();
            let is_joined = status.connection == ConnectionState::Joined;
            lost_at = if is_joined { None } else { lost_at.or_else(|| Some(Instant::now())) };
            let wait = lost_at.map_or(Duration::ZERO, |at| LOST_MAX.saturating_sub(at.elapsed()));
            let is_needed = wait.is_zero() && (!is_joined || status.counts.holders == 0);
            let at = self.options.at.iter().filter(|_| is_needed);
            let wanted: Vec<ServerUrl> = status.elsewhere.iter().chain(at).cloned().collect();
            let local_have = *have.borrow_and_update();
            // A server that is no longer named may still have the only peers with some blocks. A live page may
            // grow at any of its servers, also after one of them was restarted.
            clients.retain_mut(|client| {
                let has_peers = client.status.borrow_and_update().peers > 0;
                let is_live = self.options.live.is_some();
                has_peers || is_live || wanted.contains(&client.server)
            });
            clients.iter().for_each(|client| client.client.set_have(local_have));
            self.join(&wanted, local_have, &mut clients, &mut tried);
            let merged = merged(status, &clients);
            all.send_if_modified(|before| {
                let is_changed = *before != merged;
                *before = merged;
                is_changed
            });
            let statuses = clients.iter_mut().map(|client| &mut client.status).chain([&mut home]);
            let changes = statuses.map(|status| Box::pin(status.changed()));
            let changed = tokio::select! {
                changed = async { select_all(changes).await.0 } => changed,
                changed = have.changed() => changed,
                () = sleep(wait), if !wait.is_zero() => Ok(()),
                Ok(peer) = banned.recv() => {
                    clients.iter().for_each(|client| client.client.ban(peer));
                    Ok(())
                }
            };
            if changed.is_err() {
                return;
            }
        }
    }

    /// Joins the page at the servers that are named, as far as there is room. A client that has failed gives its
    /// place to a server that was not tried yet.
    fn join(
        &self,
        named: &[ServerUrl],
        have: Have,
        clients: &mut Vec<Client>,
        tried: &mut Vec<ServerUrl>,
    ) {
        tried.retain(|server| named.contains(server) && clients.len() == SERVERS_MAX);
        for server in named.iter().filter(|server| self.home.may_name(server)) {
            if tried.contains(server) || clients.iter().any(|client| client.server == *server) {
                continue;
            }
            let failed = clients.iter().position(Client::has_failed);
            if clients.len() == SERVERS_MAX && failed.is_none() {
                return;
            }
            tried.push(server.clone());
            match server.connector() {
                Ok(connector) => {
                    if clients.len() == SERVERS_MAX
                        && let Some(failed) = failed
                    {
                        clients.remove(failed);
                    }
                    let options = PageClientOptions { connector, have, ..self.options.clone() };
                    let client = PageClient::start_on(self.transport.another(), options);
                    let status = client.status();
                    clients.push(Client { server: server.clone(), client, status });
                }
                Err(error) => tracing::debug!(%server, %error, "cannot join another server"),
            }
        }
    }
}

/// The counts of several servers cannot be added: a peer may be at more than one of them.
fn merged(home: PageStatus, clients: &[Client]) -> PageStatus {
    clients.iter().fold(home, |mut merged, client| {
        let status = client.status.borrow();
        if status.counts.watching > merged.counts.watching {
            merged.counts = status.counts;
        }
        merged.peers += status.peers;
        merged.last_drop = merged.last_drop.or(status.last_drop);
        merged
    })
}
