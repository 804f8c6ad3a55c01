//! The JSON of a call.

use serde::Deserialize;

use super::error::{CallError, Code};

/// Parses the parameters of a call.
pub(super) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, CallError> {
    serde_json::from_slice(body)
        .map_err(|error| CallError::new(Code::BadRequest, format!("cannot read the call: {error}")))
}
