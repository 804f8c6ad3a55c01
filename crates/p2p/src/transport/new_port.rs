//! Dials from a new port.

use std::pin::Pin;
use std::task::{Context, Poll};

use libp2p::core::transport::{DialOpts, ListenerId, PortUse, TransportError, TransportEvent};
use libp2p::{Multiaddr, Transport};

/// A transport that dials from a port that the kernel chooses.
///
/// By default libp2p dials from the port on which it listens, on every address of the machine. That
/// fails while another program listens on the same port of any other address.
#[derive(Debug)]
pub(super) struct NewPort<T>(pub(super) T);

impl<T: Transport + Unpin> Transport for NewPort<T> {
    type Output = T::Output;
    type Error = T::Error;
    type ListenerUpgrade = T::ListenerUpgrade;
    type Dial = T::Dial;

    fn listen_on(
        &mut self,
        id: ListenerId,
        address: Multiaddr,
    ) -> Result<(), TransportError<T::Error>> {
        self.0.listen_on(id, address)
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.0.remove_listener(id)
    }

    fn dial(
        &mut self,
        address: Multiaddr,
        options: DialOpts,
    ) -> Result<T::Dial, TransportError<T::Error>> {
        self.0.dial(address, DialOpts { port_use: PortUse::New, ..options })
    }

    fn poll(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<TransportEvent<T::ListenerUpgrade, T::Error>> {
        Pin::new(&mut self.0).poll(context)
    }
}
