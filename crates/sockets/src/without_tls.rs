//! These types stand in for the types of [`tls`](crate::tls) in a build without the feature `tls`. There
//! are no certificates, so no value of them ever exists.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use watchfire_types::ShardId;

use crate::counters::{CountedConnection, SocketCounters};
use crate::http::Returns;
use crate::limits::SocketLimits;
use crate::server::StartError;

/// Certificates need the feature `tls`.
#[derive(Debug)]
pub enum Certificates {}

#[derive(Clone)]
pub(crate) enum TlsAcceptor {}

#[derive(Clone)]
pub(crate) enum TlsTerminator {}

pub(crate) const DESCRIPTORS_EACH: usize = 1;

pub(crate) fn acceptor(certificates: Arc<Certificates>) -> Result<TlsAcceptor, StartError> {
    match *certificates {}
}

impl TlsTerminator {
    pub fn new(
        acceptor: TlsAcceptor,
        _: Rc<Returns>,
        _: Arc<SocketLimits>,
        _: Arc<SocketCounters>,
        _: ShardId,
    ) -> Self {
        match acceptor {}
    }

    pub fn receive(&self, _: OwnedFd, _: SocketAddr, _: CountedConnection) {
        match *self {}
    }
}
