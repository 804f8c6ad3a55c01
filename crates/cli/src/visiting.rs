//! Pages of a server, visited from the terminal.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use content::Cid;
use p2p::Host;
use private::Key;
use tokio::sync::watch;
use tokio::time::timeout;
use visit::{Have, News, Plan, Site, Standing, Visit, page_of};

use crate::link::private_fragment;

/// How long a server has to let us in before a verb gives up on its start.
const JOIN_MAX: Duration = Duration::from_secs(20);

/// Visits the page of a root on a server, and says on stderr when that server cannot be reached.
pub fn visit(host: &Host, site: &Site, root: &Cid, have: Have) -> anyhow::Result<Visit> {
    let plan = Plan {
        door: site.door().with_context(|| site.to_string())?,
        page: root.clone(),
        have,
        scope: None,
        extra: serde_json::Value::Null,
    };
    let visit = Visit::begin(host, plan);
    tokio::spawn(tell_troubles(visit.news(), site.to_string()));
    Ok(visit)
}

/// The link by which browsers open a root's page.
pub fn page_link(site: &Site, root: &Cid, name: Option<&str>, key: Option<&Key>) -> String {
    match key {
        Some(key) => site.link(&page_of(root), None) + &private_fragment(key, name),
        None => site.link(&page_of(root), name),
    }
}

/// Waits until all visits are where they should be, or one is not let in.
pub async fn joined(visits: &[Visit], site: &Site) -> anyhow::Result<()> {
    let all = async {
        for visit in visits {
            let mut news = visit.news();
            let is_decided = |news: &News| news.standing != Standing::Connecting;
            match &news.wait_for(is_decided).await?.standing {
                Standing::Refused(reason) | Standing::Away(reason) => {
                    anyhow::bail!("{site}: {reason}")
                }
                Standing::Joined | Standing::Connecting => {}
            }
        }
        Ok(())
    };
    timeout(JOIN_MAX, all).await.with_context(|| format!("{site} does not answer"))?
}

async fn tell_troubles(mut news: watch::Receiver<News>, site: String) {
    let mut told = None;
    while news.changed().await.is_ok() {
        let standing = news.borrow_and_update().standing.clone();
        match standing {
            Standing::Joined => {
                if told.take().is_some() {
                    eprintln!("watchfire: {site} is there again");
                }
            }
            Standing::Away(reason) | Standing::Refused(reason) => {
                if told.as_ref() != Some(&reason) {
                    eprintln!("watchfire: {site}: {reason}; trying again");
                    told = Some(reason);
                }
            }
            Standing::Connecting => {}
        }
    }
}

/// Says on the page how much of it is here, as it comes.
#[derive(Default)]
pub struct Announcer {
    visits: Vec<Arc<Visit>>,
}

impl Announcer {
    /// For these visits of one page.
    pub fn of(visits: Vec<Arc<Visit>>) -> Self {
        Announcer { visits }
    }

    /// So many bytes are here, and more is missing.
    pub fn has(&self, bytes: u64) {
        if bytes > 0 {
            self.visits.iter().for_each(|visit| visit.set_have(Have::Some));
        }
    }

    /// All of it is here.
    pub fn has_all(&self) {
        self.visits.iter().for_each(|visit| visit.set_have(Have::All));
    }
}
