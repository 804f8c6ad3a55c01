//! The addresses that a host listens on.

use std::io;

use libp2p::Multiaddr;
use libp2p::core::transport::ListenerId;
use libp2p::swarm::Swarm;
use tokio::sync::{oneshot, watch};

use crate::behaviour::Behaviour;
use crate::error::StartError;

pub(super) type Ready = oneshot::Sender<Result<(), StartError>>;

/// Listeners that have not reported an address yet, each with its configured address.
pub(super) type PendingListeners = Vec<(ListenerId, Multiaddr)>;

/// Reports the start of a host once all listeners have an address, and publishes the addresses.
pub(super) struct Listeners {
    pending: PendingListeners,
    ready: Option<Ready>,
    addresses: watch::Sender<Vec<Multiaddr>>,
}

impl Listeners {
    pub(super) fn new(addresses: watch::Sender<Vec<Multiaddr>>) -> Self {
        Listeners { pending: Vec::new(), ready: None, addresses }
    }

    /// Completes `ready` when no listener is pending.
    pub(super) fn set_pending(&mut self, pending: PendingListeners, ready: Ready) {
        self.pending = pending;
        self.ready = Some(ready);
        self.report_ready();
    }

    pub(super) fn handle_new_address(
        &mut self,
        swarm: &mut Swarm<Behaviour>,
        listener: ListenerId,
        address: Multiaddr,
    ) {
        // Provider records contain only the external addresses.
        swarm.add_external_address(address);
        self.publish_addresses(swarm);
        self.pending.retain(|(id, _)| *id != listener);
        self.report_ready();
    }

    pub(super) fn handle_expired_address(
        &mut self,
        swarm: &mut Swarm<Behaviour>,
        address: &Multiaddr,
    ) {
        swarm.remove_external_address(address);
        self.publish_addresses(swarm);
    }

    pub(super) fn handle_closed(
        &mut self,
        swarm: &mut Swarm<Behaviour>,
        listener: ListenerId,
        reason: Result<(), io::Error>,
        addresses: &[Multiaddr],
    ) {
        addresses.iter().for_each(|address| swarm.remove_external_address(address));
        self.publish_addresses(swarm);
        let error = reason.err().map_or_else(|| "closed".to_owned(), |error| error.to_string());
        match self.pending.iter().position(|(id, _)| *id == listener) {
            Some(at) => {
                let (_, address) = self.pending.swap_remove(at);
                if let Some(ready) = self.ready.take() {
                    let _ = ready.send(Err(StartError::Listen { address, error }));
                }
            }
            None => tracing::error!(error, ?addresses, "stopped listening"),
        }
    }

    fn report_ready(&mut self) {
        if self.pending.is_empty()
            && let Some(ready) = self.ready.take()
        {
            // Fails only if the caller is gone. Then the command channel is closed too.
            let _ = ready.send(Ok(()));
        }
    }

    /// Publishes the listening addresses, each with `/p2p/<peer id>` at its end.
    fn publish_addresses(&self, swarm: &Swarm<Behaviour>) {
        let id = *swarm.local_peer_id();
        let with_id =
            |address: &Multiaddr| address.clone().with_p2p(id).unwrap_or_else(|address| address);
        self.addresses.send_replace(swarm.listeners().map(with_id).collect());
    }
}
