//! The programs that nodes run, each behind the same contract.
//!
//! Its modules import only those in the lines below their own:
//!
//! ```text
//! server, other              `watchfire serve`, and any program by its commands
//! watchfire, http, images    a peer each
//! events, content_server, running_server, kubo    running nodes
//! contract                   what a run asks of a program and of a node
//! content                    the objects of a trial on disk
//! random_image
//! ```

mod content;
mod content_server;
mod contract;
mod events;
mod http;
mod images;
mod kubo;
mod other;
mod random_image;
mod running_server;
mod server;
mod watchfire;

use std::path::Path;

use crate::definition::{Build, Implementation, Peer};

pub use content::{Content, content};
pub use contract::{
    Node, Program, START_TIMEOUT, STOP_TIMEOUT, Started, Status, Ticket, Totals, UsageByKind,
};
pub use events::totals;
pub use other::shell;
pub use server::Server;
pub use watchfire::Transport;

/// The program of a peer, or why it cannot run. `watchfire` is the program of peers that name no path.
pub fn program(peer: &Peer, watchfire: &Path) -> Result<Box<dyn Program>, String> {
    let path = match &peer.build {
        Build::Path(path) => Some(path.clone()),
        Build::Installed | Build::Git(_) => None,
    };
    let settings = &peer.settings;
    let is_ours = matches!(
        peer.implementation,
        Implementation::Watchfire | Implementation::Server | Implementation::Mirror
    );
    if !is_ours && matches!(peer.build, Build::Git(_)) {
        return Err(format!("{:?} is not built from git", peer.implementation));
    }
    let ours = || path.clone().unwrap_or_else(|| watchfire.to_owned());
    Ok(match peer.implementation {
        Implementation::Watchfire => Box::new(watchfire::Watchfire::new(ours(), settings)?),
        Implementation::Server => Box::new(server::Server::new(ours(), settings)),
        Implementation::Mirror => Box::new(images::Images::through_mirrors(ours(), settings)?),
        Implementation::Registry => Box::new(images::Images::from_registry(settings)?),
        Implementation::Http => Box::new(http::Http::new(settings)?),
        Implementation::Kubo => {
            Box::new(kubo::Kubo::new(path.unwrap_or_else(|| "ipfs".into()), settings)?)
        }
        Implementation::Program => {
            let path = path.map(other::found).transpose()?;
            let path = path.unwrap_or_else(|| watchfire.to_owned());
            Box::new(other::Other::new(path, settings)?)
        }
        Implementation::GoBitswap => Box::new(other::Other::go_bitswap(path, settings)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drivers::processes::host::Site;

    #[test]
    fn an_error_says_which_part_in_the_trial_a_peer_does_not_fit() {
        let (site, _folder) = Site::for_test();
        let content = Content { name: "files".to_owned(), path: site.folder.clone(), bytes: 1 };
        for (error, expected) in [
            (
                http::Http.store(&site, &[]).err(),
                "cannot share content and fetch: a node of this peer does only one of them; \
                 give the content to another node",
            ),
            (
                http::Http.seed(&site, std::slice::from_ref(&content)).err(),
                "cannot share files over HTTP: it is a folder, and curl fetches only files",
            ),
            (
                http::Http.serve(&site).err(),
                "cannot serve the users of a load: the peer of this node is not a server",
            ),
        ] {
            assert_eq!(error.unwrap().to_string(), expected);
        }
    }
}
