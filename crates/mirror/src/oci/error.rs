//! Errors as the specification writes them.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::json;

/// The code of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// The manifest is unknown.
    ManifestUnknown,
    /// The blob is unknown.
    BlobUnknown,
    /// The repository is unknown, or its registry is not mirrored.
    NameUnknown,
    /// The name of the repository is invalid.
    NameInvalid,
    /// The digest is invalid.
    DigestInvalid,
    /// The tag is invalid.
    TagInvalid,
    /// The manifest is invalid.
    ManifestInvalid,
    /// The range has no byte of the blob.
    RangeInvalid,
    /// Credentials are needed.
    Unauthorized,
    /// The credentials are not sufficient.
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
    /// The code in the response.
    pub const fn as_str(self) -> &'static str {
        match self {
            ErrorCode::ManifestUnknown => "MANIFEST_UNKNOWN",
            ErrorCode::BlobUnknown => "BLOB_UNKNOWN",
            ErrorCode::NameUnknown => "NAME_UNKNOWN",
            ErrorCode::NameInvalid => "NAME_INVALID",
            ErrorCode::DigestInvalid => "DIGEST_INVALID",
            ErrorCode::TagInvalid => "TAG_INVALID",
            ErrorCode::ManifestInvalid => "MANIFEST_INVALID",
            ErrorCode::RangeInvalid => "RANGE_INVALID",
            ErrorCode::Unauthorized => "UNAUTHORIZED",
            ErrorCode::Denied => "DENIED",
            ErrorCode::TooManyRequests => "TOOMANYREQUESTS",
            ErrorCode::Unsupported => "UNSUPPORTED",
            ErrorCode::Unavailable => "UNAVAILABLE",
            ErrorCode::UrlInvalid => "URL_INVALID",
            ErrorCode::Timeout => "TIMEOUT",
        }
    }

    const fn status(self) -> StatusCode {
        match self {
            ErrorCode::ManifestUnknown | ErrorCode::BlobUnknown | ErrorCode::NameUnknown => {
                StatusCode::NOT_FOUND
            }
            ErrorCode::NameInvalid
            | ErrorCode::DigestInvalid
            | ErrorCode::TagInvalid
            | ErrorCode::ManifestInvalid
            | ErrorCode::UrlInvalid => StatusCode::BAD_REQUEST,
            ErrorCode::RangeInvalid => StatusCode::RANGE_NOT_SATISFIABLE,
            ErrorCode::Unauthorized => StatusCode::UNAUTHORIZED,
            ErrorCode::Denied => StatusCode::FORBIDDEN,
            ErrorCode::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            ErrorCode::Unsupported => StatusCode::METHOD_NOT_ALLOWED,
            ErrorCode::Unavailable => StatusCode::BAD_GATEWAY,
            ErrorCode::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// Its code.
    pub code: ErrorCode,
    /// A sentence for people.
    pub message: String,
    /// A header of the response besides its type, such as `Retry-After`.
    pub header: Option<(HeaderName, HeaderValue)>,
}

impl ApiError {
    /// An error without a header.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        ApiError { code, message: message.into(), header: None }
    }

    /// The same error with a header.
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
        *response.status_mut() = self.code.status();
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
