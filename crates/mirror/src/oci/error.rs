//! Errors as the specification writes them.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::json;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    ManifestUnknown,
    BlobUnknown,
    /// The repository is unknown, or its registry is not mirrored.
    NameUnknown,
    NameInvalid,
    DigestInvalid,
    TagInvalid,
    ManifestInvalid,
    RangeInvalid,
    Unauthorized,
    Denied,
    /// The upstream registry limits the rate of requests.
    TooManyRequests,
    /// The operation is not supported: a mirror only serves pulls.
    Unsupported,
    /// The upstream registry cannot be reached, or answered with an error.
    Unavailable,
    /// The URL of a file is invalid. This code and the next are not of the specification: images have
    /// no URLs, and their clients get 404 instead of a timeout.
    UrlInvalid,
    /// The server of a file sent nothing in time.
    Timeout,
}

impl ErrorCode {
    const fn row(self) -> (&'static str, StatusCode) {
        match self {
            ErrorCode::ManifestUnknown => ("MANIFEST_UNKNOWN", StatusCode::NOT_FOUND),
            ErrorCode::BlobUnknown => ("BLOB_UNKNOWN", StatusCode::NOT_FOUND),
            ErrorCode::NameUnknown => ("NAME_UNKNOWN", StatusCode::NOT_FOUND),
            ErrorCode::NameInvalid => ("NAME_INVALID", StatusCode::BAD_REQUEST),
            ErrorCode::DigestInvalid => ("DIGEST_INVALID", StatusCode::BAD_REQUEST),
            ErrorCode::TagInvalid => ("TAG_INVALID", StatusCode::BAD_REQUEST),
            ErrorCode::ManifestInvalid => ("MANIFEST_INVALID", StatusCode::BAD_REQUEST),
            ErrorCode::RangeInvalid => ("RANGE_INVALID", StatusCode::RANGE_NOT_SATISFIABLE),
            ErrorCode::Unauthorized => ("UNAUTHORIZED", StatusCode::UNAUTHORIZED),
            ErrorCode::Denied => ("DENIED", StatusCode::FORBIDDEN),
            ErrorCode::TooManyRequests => ("TOOMANYREQUESTS", StatusCode::TOO_MANY_REQUESTS),
            ErrorCode::Unsupported => ("UNSUPPORTED", StatusCode::METHOD_NOT_ALLOWED),
            ErrorCode::Unavailable => ("UNAVAILABLE", StatusCode::BAD_GATEWAY),
            ErrorCode::UrlInvalid => ("URL_INVALID", StatusCode::BAD_REQUEST),
            ErrorCode::Timeout => ("TIMEOUT", StatusCode::GATEWAY_TIMEOUT),
        }
    }

    pub const fn as_str(self) -> &'static str {
        self.row().0
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    pub code: ErrorCode,
    pub message: String,
    /// A header of the response besides its type, such as `Retry-After`.
    pub header: Option<(HeaderName, HeaderValue)>,
}

impl ApiError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        ApiError { code, message: message.into(), header: None }
    }

    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some((name, value));
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let error = json!({ "code": self.code.as_str(), "message": self.message });
        let body = json!({ "errors": [error] }).to_string();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.code.row().1;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
