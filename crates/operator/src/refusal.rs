//! Why a call has no answer: its status, and a reason for programs and for people.

use std::borrow::Cow;

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;
use watchfire::internal::refuse_call;

#[derive(Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub reason: &'static str,
    /// The fault, and its remedy.
    pub message: Cow<'static, str>,
}

impl Refusal {
    pub fn bad_request(message: String) -> Self {
        Refusal { status: StatusCode::BAD_REQUEST, reason: "bad request", message: message.into() }
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Refusal::bad_request(rejection.body_text())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        refuse_call(self.status, self.reason, &self.message)
    }
}

/// The parameters of a call, in its query.
pub(crate) struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let Query(params) = Query::try_from_uri(&parts.uri)?;
        Ok(Params(params))
    }
}
