//! Clients of server pages, for `share`, `get` and `hold`.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use tokio::sync::watch;
use watchfire_content::Cid;
use watchfire_content::encryption::Key;
use watchfire_p2p::Host;
use watchfire_page_client::{
    ConnectionState, DirectLimit, DirectOptions, Have, LiveHeads, PageClient, PageClientOptions,
    PageStatus, ServerUrl, WebTransportListener, page_cid,
};
use watchfire_traces::{Kind, Span, current};

use crate::link::{PagePlace, private_fragment};
use crate::signals::awake;

/// Time limit for a server to accept a join.
const JOIN_TIMEOUT: Duration = Duration::from_secs(20);
/// Most direct connections to browsers, over all pages of this process.
const DIRECT_MAX: usize = 64;

/// The direct connections to browsers, which can dial this process at its own addresses and at
/// `outside`. All pages share them.
pub fn direct_options(outside: Option<(String, u16)>) -> DirectOptions {
    static OPTIONS: OnceLock<DirectOptions> = OnceLock::new();
    let options = OPTIONS.get_or_init(|| DirectOptions {
        limit: DirectLimit::new(DIRECT_MAX),
        web_transport: Some(Arc::new(WebTransportListener::new(outside))),
    });
    options.clone()
}

/// Joins a page. A server that cannot be reached is reported on stderr.
pub fn join_page(
    host: &Host,
    direct: Option<DirectOptions>,
    place: PagePlace<'_>,
    have: Have,
) -> anyhow::Result<PageClient> {
    join_live_page(host, direct, place, have, None)
}

/// Joins a page whose peers also exchange heads, if it is live.
pub fn join_live_page(
    host: &Host,
    direct: Option<DirectOptions>,
    place: PagePlace<'_>,
    have: Have,
    live: Option<LiveHeads>,
) -> anyhow::Result<PageClient> {
    let PagePlace { site, at, root } = place;
    let mut span = Span::below(current(), "join", Kind::Client);
    span.set("watchfire.page", page_cid(root).to_string());
    let join_params = span.context().map_or(Value::Null, |span| {
        // The server's span of the join is below ours.
        serde_json::json!({ "traceparent": span.to_string() })
    });
    let plan = PageClientOptions {
        connector: site.connector().with_context(|| site.to_string())?,
        home: Some(site.clone()),
        at: at.to_vec(),
        page: root.clone(),
        have,
        request_filter: None,
        join_params,
        live,
        direct,
    };
    let client = PageClient::start(host, plan);
    tokio::spawn(report_failures(client.status(), site.to_string()));
    if span.is_recorded() {
        tokio::spawn(end_when_joined(client.status(), span));
    }
    Ok(client)
}

/// Ends the span of a join when the server has answered.
async fn end_when_joined(mut status: watch::Receiver<PageStatus>, mut span: Span) {
    let is_decided = |status: &PageStatus| status.connection != ConnectionState::Connecting;
    match status.wait_for(is_decided).await.map(|status| status.connection.clone()) {
        Ok(ConnectionState::Rejected(reason) | ConnectionState::Disconnected(reason)) => {
            span.fail(reason);
        }
        Ok(ConnectionState::Joined | ConnectionState::Connecting) | Err(_) => {}
    }
}

/// The link that opens the page of a root in a browser.
pub fn page_link(site: &ServerUrl, root: &Cid, name: Option<&str>, key: Option<&Key>) -> String {
    match key {
        Some(key) => site.link(&page_cid(root), None) + &private_fragment(key, name),
        None => site.link(&page_cid(root), name),
    }
}

/// The people who have the pages open in browsers.
pub fn people<'a>(clients: impl IntoIterator<Item = &'a PageClient>) -> u64 {
    clients.into_iter().map(|client| client.status().borrow().counts.people()).sum()
}

/// Waits until all clients have joined, or one was rejected.
pub async fn joined(clients: &[PageClient], site: &ServerUrl) -> anyhow::Result<()> {
    let all = async {
        for client in clients {
            let mut status = client.status();
            let is_decided = |status: &PageStatus| status.connection != ConnectionState::Connecting;
            match &status.wait_for(is_decided).await?.connection {
                ConnectionState::Rejected(reason) | ConnectionState::Disconnected(reason) => {
                    anyhow::bail!("{site}: {reason}")
                }
                ConnectionState::Joined | ConnectionState::Connecting => {}
            }
        }
        Ok(())
    };
    tokio::select! {
        joined = all => joined,
        () = awake(JOIN_TIMEOUT) => anyhow::bail!("{site} does not respond"),
    }
}

async fn report_failures(mut status: watch::Receiver<PageStatus>, site: String) {
    let mut reported = None;
    // Each kind once, so that hostile peers cannot fill the terminal.
    let mut drops = BTreeSet::new();
    while status.changed().await.is_ok() {
        let PageStatus { connection, last_drop, .. } = status.borrow_and_update().clone();
        if let Some(reason) = last_drop.filter(|reason| drops.insert(*reason)) {
            eprintln!("watchfire: {site}: disconnected a peer that sent {reason}");
        }
        match connection {
            ConnectionState::Joined => {
                if reported.take().is_some() {
                    eprintln!("watchfire: {site} is reachable again");
                }
            }
            ConnectionState::Disconnected(reason) | ConnectionState::Rejected(reason) => {
                if reported.as_ref() != Some(&reason) {
                    eprintln!("watchfire: {site}: {reason}; trying again");
                    reported = Some(reason);
                }
            }
            ConnectionState::Connecting => {}
        }
    }
}

/// Announces on the page how much of it has arrived.
#[derive(Default)]
pub struct Announcer {
    clients: Vec<Arc<PageClient>>,
    is_silent: bool,
}

impl Announcer {
    pub fn of(clients: Vec<Arc<PageClient>>) -> Self {
        Announcer { clients, is_silent: false }
    }

    /// One that announces nothing, for a fetch of only a few blocks of the page.
    pub fn silent(&self) -> Self {
        Announcer { clients: self.clients.clone(), is_silent: true }
    }

    /// Whether the page is available at another server.
    pub fn is_elsewhere(&self) -> bool {
        self.clients.iter().any(|client| !client.status().borrow().elsewhere.is_empty())
    }

    /// This many bytes have arrived, and more are missing.
    pub fn has(&self, bytes: u64) {
        if bytes > 0 && !self.is_silent {
            self.clients.iter().for_each(|client| client.set_have(Have::Some));
        }
    }

    /// The whole page has arrived.
    pub fn has_all(&self) {
        if !self.is_silent {
            self.clients.iter().for_each(|client| client.set_have(Have::All));
        }
    }
}
