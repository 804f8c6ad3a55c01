//! Responses of the API.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};

/// A response with a JSON body, which no cache keeps.
pub(super) fn respond(status: StatusCode, json: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/json; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, json).into_response()
}
