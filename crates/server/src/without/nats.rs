//! Without the feature `cluster`, a server is one machine.

use std::convert::Infallible;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use watchfire_cluster::bus::LocalBus;
use watchfire_types::NodeId;

use crate::not_built::NotBuilt;

const NOT_BUILT: NotBuilt = NotBuilt { setting: "cluster.nats", feature: "cluster" };

pub(crate) type NatsError = NotBuilt;

/// No machine joins.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct JoinError(NotBuilt);

impl From<Infallible> for JoinError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

pub(crate) struct NatsSettings {
    pub urls: Vec<String>,
    pub credentials_file: Option<PathBuf>,
    pub root_certificates: Option<PathBuf>,
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    pub prefix: String,
    pub key: Option<String>,
}

impl NatsSettings {
    pub fn check(&self) -> Result<(), NotBuilt> {
        Err(NOT_BUILT)
    }
}

pub(crate) enum Machine {}

impl Machine {
    pub async fn join(_: &NatsSettings, _: u16, _: u64) -> Result<Self, JoinError> {
        Err(JoinError(NOT_BUILT))
    }

    pub fn first(&self) -> NodeId {
        match *self {}
    }

    pub fn secret(&self) -> [u8; 32] {
        match *self {}
    }

    pub fn cluster(&self) -> u64 {
        match *self {}
    }

    pub async fn serve(&mut self) -> Infallible {
        match *self {}
    }

    pub async fn leave(self) {
        match self {}
    }
}

pub(crate) struct Process {
    pub me: NodeId,
    pub of_machine: Range<u16>,
    pub cluster: u64,
    pub format: u64,
}

pub(crate) enum Links {}

impl Links {
    pub async fn start(_: NatsSettings, _: Process, _: Arc<LocalBus>) -> Result<Self, NotBuilt> {
        Err(NOT_BUILT)
    }

    pub async fn settled(&self) {
        match *self {}
    }

    pub fn totals(&self) -> LinkTotals {
        match *self {}
    }
}

pub(crate) struct LinkTotals {
    pub is_connected: bool,
    pub is_settled: bool,
    pub links: u64,
    pub ended: u64,
    pub sent: u64,
    pub bytes_out: u64,
    pub bytes_in: u64,
    pub sent_again: u64,
}
