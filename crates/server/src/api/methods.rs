//! The table of methods.

use std::future::Future;
use std::pin::Pin;

use super::clients::{disconnect, unsubscribe};
use super::error::CallError;
use super::history::history;
use super::info::info;
use super::presence::{presence, presence_stats};
use super::processes::Processes;
use super::publish::PublishMethod;
use super::topics::topics;
use crate::settings::ApiScope;

/// A method of the API: `POST /api/<name>`.
pub(super) struct Method {
    pub name: &'static str,
    /// The scope that a key needs.
    pub scope: ApiScope,
    pub run: Run,
}

/// The work of a method.
pub(super) enum Run {
    /// It publishes. With an `Idempotency-Key` it is done once.
    Publish(PublishMethod),
    /// It gets the JSON of the call and returns that of the answer. Doing it again does no harm.
    Ask(for<'a> fn(&'a Processes, &'a [u8]) -> Asking<'a>),
}

type Asking<'a> = Pin<Box<dyn Future<Output = Result<String, CallError>> + Send + 'a>>;

/// All methods. A new one is a line here, a function, and an entry in `openapi.json`.
#[rustfmt::skip] // A table.
pub(super) const METHODS: &[Method] = &[
    Method { name: "publish", scope: ApiScope::Publish, run: Run::Publish(PublishMethod::Publish) },
    Method { name: "broadcast", scope: ApiScope::Publish, run: Run::Publish(PublishMethod::Broadcast) },
    Method { name: "batch", scope: ApiScope::Publish, run: Run::Publish(PublishMethod::Batch) },
    Method { name: "presence", scope: ApiScope::Presence, run: Run::Ask(|all, call| Box::pin(presence(all, call))) },
    Method { name: "presence_stats", scope: ApiScope::Presence, run: Run::Ask(|all, call| Box::pin(presence_stats(all, call))) },
    Method { name: "history", scope: ApiScope::History, run: Run::Ask(|all, call| Box::pin(history(all, call))) },
    Method { name: "disconnect", scope: ApiScope::Disconnect, run: Run::Ask(|all, call| Box::pin(disconnect(all, call))) },
    Method { name: "unsubscribe", scope: ApiScope::Disconnect, run: Run::Ask(|all, call| Box::pin(unsubscribe(all, call))) },
    Method { name: "topics", scope: ApiScope::Info, run: Run::Ask(|all, call| Box::pin(topics(all, call))) },
    Method { name: "info", scope: ApiScope::Info, run: Run::Ask(|all, call| Box::pin(info(all, call))) },
];

/// The method of a name.
pub(super) fn find(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}
