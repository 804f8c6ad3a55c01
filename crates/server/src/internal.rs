//! For the crates of Watchfire's own features. It is no part of the API, and changes without notice.

#![allow(missing_docs, reason = "it is no part of the API")]

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, Uri};
use percent_encoding::percent_decode_str;
use serde_json::json;

pub use crate::addresses::Addresses;
pub use crate::channel_api::{
    Address, ClientId, ClientSender, ConnectionId, ConnectionOrder, ConnectionQuery,
    ConnectionTransport, Direction, Forward, ForwardKind, FoundConnection, FoundConnections,
    FoundTopic, FoundTopics, NotAConnection, ParkResponse, ParkRoute, ParkedRequest, Parking,
    ShardAnswer, ShardQuestion, TcpFigures, TopicOrder, TopicQuery, WatchAnswer, WatchedMessage,
    WatchedMessages, retry_after_ms,
};
pub use crate::cluster::{
    Cluster, ProcessStarts, REPORT_ENTRIES_MAX, ReportWaker, Reporter, Samples, Unanswered,
    format_of,
};
pub use crate::history::{Excerpt, History, NotStored, Stored, Wanted};
pub use crate::http::log_requests;
pub use crate::logging::{level as log_level, set_level as set_log_level};
pub use crate::metrics::{MetricSource, Metrics, Times};
pub use crate::own_client::OwnClientKey;
pub use crate::presence::ReplicatedPresence;
pub use crate::seed::Seed;
pub use crate::service_manager::state_file;
pub use crate::settings::TOKEN_BYTES_MIN;
pub use crate::token::{TokenKey, query_token};
pub use crate::unix_time::{now_ms, unix_millis};
pub use watchfire_channels::realtime;

/// Whether the path and the query of a request are UTF-8 once their percent escapes are decoded. A router
/// would replace what is not.
pub fn is_utf8(uri: &Uri) -> bool {
    let all = uri.path_and_query().map_or("", |all| all.as_str());
    percent_decode_str(all).decode_utf8().is_ok()
}

/// The answer to a refused call of the operator: a short reason for programs, and a message for people.
pub fn refuse_call(status: StatusCode, reason: &str, message: &str) -> Response {
    (status, Json(json!({ "reason": reason, "message": message }))).into_response()
}
