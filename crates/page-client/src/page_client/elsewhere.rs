//! The servers at which a page is joined beside its own: those of its link, and those where its own server says
//! that it is available.

use futures::future::select_all;
use tokio::sync::{broadcast, watch};
use watchfire_p2p::ExternalTransport;
use watchfire_types::PeerId;

use super::{PageClient, PageClientOptions, PageStatus};
use crate::messages::Have;
use crate::server_url::ServerUrl;

/// Most servers at which a page is joined beside its own. Further ones are ignored.
const SERVERS_MAX: usize = 3;

/// Joins a page at the servers that its link and its own server name.
pub(super) struct Elsewhere {
    /// The page's own server.
    pub home: ServerUrl,
    pub transport: ExternalTransport,
    /// Those of the clients at other servers, apart from the connector and the stored part.
    pub options: PageClientOptions,
}

struct Client {
    server: ServerUrl,
    client: PageClient,
    status: watch::Receiver<PageStatus>,
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
        let mut named = Vec::new();
        loop {
            let status = home.borrow_and_update().clone();
            let wanted: Vec<ServerUrl> =
                self.options.at.iter().chain(&status.elsewhere).cloned().collect();
            let local_have = *have.borrow_and_update();
            // A server that is no longer named may still have the only peers with some blocks. A live page may
            // grow at any of its servers, also after one of them was restarted.
            clients.retain_mut(|client| {
                let has_peers = client.status.borrow_and_update().peers > 0;
                let is_live = self.options.live.is_some();
                has_peers || is_live || wanted.contains(&client.server)
            });
            clients.iter().for_each(|client| client.client.set_have(local_have));
            if named != wanted {
                self.join(&wanted, local_have, &mut clients);
                named = wanted;
            }
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

    /// Joins the page at the servers that are named, as far as there is room.
    fn join(&self, named: &[ServerUrl], have: Have, clients: &mut Vec<Client>) {
        for server in named.iter().filter(|server| self.home.may_name(server)) {
            if clients.len() == SERVERS_MAX {
                return;
            }
            if clients.iter().any(|client| client.server == *server) {
                continue;
            }
            match server.connector() {
                Ok(connector) => {
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
