//! The responses of the API, and its errors as callers receive them.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The kind of an error. Callers match on it, so it is a closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    Unauthorized,
    Forbidden,
    UnknownMethod,
    MethodNotAllowed,
    BadRequest,
    TopicInvalid,
    EventInvalid,
    PayloadInvalid,
    PayloadTooLarge,
    IdempotencyConflict,
    TooMany,
    Unavailable,
    UnsupportedEncoding,
}

impl Code {
    /// The code as text, which is also a label of the metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Unauthorized => "unauthorized",
            Code::Forbidden => "forbidden",
            Code::UnknownMethod => "unknown_method",
            Code::MethodNotAllowed => "method_not_allowed",
            Code::BadRequest => "bad_request",
            Code::TopicInvalid => "topic_invalid",
            Code::EventInvalid => "event_invalid",
            Code::PayloadInvalid => "payload_invalid",
            Code::PayloadTooLarge => "payload_too_large",
            Code::IdempotencyConflict => "idempotency_conflict",
            Code::TooMany => "too_many",
            Code::Unavailable => "unavailable",
            Code::UnsupportedEncoding => "unsupported_encoding",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Code::Unauthorized => StatusCode::UNAUTHORIZED,
            Code::Forbidden => StatusCode::FORBIDDEN,
            Code::UnknownMethod => StatusCode::NOT_FOUND,
            Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Code::BadRequest | Code::TopicInvalid | Code::EventInvalid | Code::PayloadInvalid => {
                StatusCode::BAD_REQUEST
            }
            Code::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::IdempotencyConflict => StatusCode::UNPROCESSABLE_ENTITY,
            Code::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Code::UnsupportedEncoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }
}

/// Why a call is not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallError {
    pub code: Code,
    pub message: String,
}

impl CallError {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        CallError { code, message: message.into() }
    }

    /// `{"error":{"code","message"}}`
    pub fn to_json(&self) -> Value {
        json!({ "error": self })
    }
}

/// A response with a JSON body, which no cache keeps.
pub fn respond(status: StatusCode, json: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/json; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, json).into_response()
}

impl IntoResponse for CallError {
    fn into_response(self) -> Response {
        let mut response = respond(self.code.status(), self.to_json().to_string());
        let header = match self.code {
            Code::Unauthorized => Some((header::WWW_AUTHENTICATE, "Bearer")),
            Code::MethodNotAllowed => Some((header::ALLOW, "POST")),
            Code::TooMany | Code::Unavailable => Some((header::RETRY_AFTER, "1")),
            Code::UnsupportedEncoding => Some((header::ACCEPT_ENCODING, "gzip")),
            _ => None,
        };
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_lists_exactly_these_codes() {
        let document: Value = serde_json::from_str(include_str!("openapi.json")).unwrap();
        let code = "/components/schemas/Error/properties/error/properties/code/enum";
        let listed = document.pointer(code).expect("the codes").clone();
        let codes: Vec<Code> = serde_json::from_value(listed).expect("only known codes");
        // `UnsupportedEncoding` is the last one.
        assert_eq!(codes.len(), Code::UnsupportedEncoding as usize + 1);
        for (index, code) in codes.into_iter().enumerate() {
            assert_eq!(code as usize, index);
        }
    }

    #[test]
    fn an_error_says_its_code_as_the_metrics_do() {
        for code in [Code::BadRequest, Code::PayloadTooLarge, Code::IdempotencyConflict] {
            let json = CallError::new(code, "m").to_json();
            assert_eq!(json, json!({ "error": { "code": code.as_str(), "message": "m" } }));
        }
    }
}
