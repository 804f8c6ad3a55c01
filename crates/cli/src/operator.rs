//! Calls to the operator's listener of a running server: JSON over HTTP, as the operator's page makes them.

use std::io;
use std::path::Path;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use watchfire_operator::answers::LimitUse;
use watchfire_page_client::ServerUrl;
use watchfire_report::units;

use crate::http_client::{Answer, HttpClient, Request};
use crate::secret;

/// The address of the listener with the default settings.
pub const DEFAULT_URL: &str = "http://127.0.0.1:4010";
/// The variable with the token. The server reads the same one.
const TOKEN_VARIABLE: &str = "WATCHFIRE_ADMIN_TOKEN";
/// Bytes that are read of an answer. The history of 15 minutes has less than one MiB.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The server waits two seconds for its event loops.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The operator's listener of one server.
pub struct Operator {
    server: ServerUrl,
    client: HttpClient,
    token: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("cannot reach {server}: {cause}{hint}")]
    Unreachable { server: ServerUrl, cause: io::Error, hint: &'static str },
    #[error(
        "{server} requires the operator's token{}: set {TOKEN_VARIABLE}, or name a file with --token-file",
        if *had_token { ", and it is not the one given" } else { "" }
    )]
    Unauthorized { server: ServerUrl, had_token: bool },
    #[error(
        "{server} is not the operator's listener of a server (status {status}); use the address that admin.listen names"
    )]
    NotTheListener { server: ServerUrl, status: u16 },
    #[error("{server} refuses the call: {message}")]
    Refused { server: ServerUrl, status: u16, message: String },
    #[error("the answer of {server} is longer than {ANSWER_BYTES_MAX} bytes, or was cut")]
    Cut { server: ServerUrl },
    #[error(
        "cannot read the answer of {server}: {cause}; is it of the same version as this program?"
    )]
    Unreadable { server: ServerUrl, cause: serde_json::Error },
}

/// An error as the server writes it.
#[derive(Deserialize)]
struct Refusal {
    message: String,
}

impl Operator {
    /// The token is read from the file, or else from the environment.
    pub fn new(server: &ServerUrl, token_file: Option<&Path>) -> anyhow::Result<Self> {
        let variable = std::env::var(TOKEN_VARIABLE).ok();
        let token = secret::read(token_file, TOKEN_VARIABLE, variable)?;
        let client = HttpClient::new(server, TIMEOUT, ANSWER_BYTES_MAX)?;
        Ok(Operator { server: server.clone(), client, token })
    }

    /// Calls a path. `GET` reads; other methods make a change, and have no body.
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
    ) -> Result<T, CallError> {
        self.read(self.client.exchange(&self.request(method, path)).await)
    }

    /// Calls a path like [`Operator::call`], on a runtime of its own.
    pub fn call_blocking<T: DeserializeOwned>(
        &self,
        method: &'static str,
        path: &str,
    ) -> anyhow::Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(self.call(method, path))?)
    }

    /// Notes an event on the operator's page.
    pub fn note_blocking(&self, text: &str) -> anyhow::Result<()> {
        let text = utf8_percent_encode(text, NON_ALPHANUMERIC);
        let _: serde_json::Value =
            self.call_blocking("POST", &format!("/admin/events?text={text}"))?;
        Ok(())
    }

    fn request(&self, method: &'static str, path: &str) -> Request {
        let mut request = Request { method, ..Request::get(path) };
        if let Some(token) = &self.token {
            request.headers.push(("Authorization", format!("Bearer {token}")));
        }
        request
    }

    fn read<T: DeserializeOwned>(&self, exchanged: io::Result<Answer>) -> Result<T, CallError> {
        let server = || self.server.clone();
        let answer = exchanged.map_err(|cause| CallError::Unreachable {
            server: server(),
            hint: match cause.kind() {
                io::ErrorKind::ConnectionRefused => {
                    "; check that the server runs, and that admin.listen names this address"
                }
                _ => "",
            },
            cause,
        })?;
        let Answer { status, body, is_complete } = answer;
        match status {
            200 if !is_complete => return Err(CallError::Cut { server: server() }),
            200 => {}
            401 => {
                let had_token = self.token.is_some();
                return Err(CallError::Unauthorized { server: server(), had_token });
            }
            _ => {
                let refusal = serde_json::from_slice::<Refusal>(&body);
                return Err(match refusal {
                    Ok(Refusal { message }) => {
                        CallError::Refused { server: server(), status, message }
                    }
                    Err(_) => CallError::NotTheListener { server: server(), status },
                });
            }
        }
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(CallError::NotTheListener { server: server(), status });
        }
        serde_json::from_slice(&body)
            .map_err(|cause| CallError::Unreadable { server: server(), cause })
    }
}

/// A used or allowed amount of a limit, as people read it.
pub fn amount(limit: &LimitUse, value: f64) -> String {
    match limit.unit.as_str() {
        "bytes" => units::binary_bytes(value as u64),
        "share" => units::percent(value, 0),
        _ => units::count(value as u64),
    }
}

#[cfg(test)]
mod tests {
    use watchfire_operator::answers::State;

    use super::*;

    fn read(status: u16, body: &str, token: Option<&str>) -> Result<State, String> {
        let server: ServerUrl = DEFAULT_URL.parse().unwrap();
        let client = HttpClient::new(&server, TIMEOUT, ANSWER_BYTES_MAX).unwrap();
        let operator = Operator { server, client, token: token.map(ToOwned::to_owned) };
        let answer = Answer { status, body: body.as_bytes().to_vec(), is_complete: true };
        operator.read(Ok(answer)).map_err(|error| error.to_string())
    }

    #[test]
    fn an_answer_without_the_state_says_what_to_do() {
        assert_eq!(read(200, r#"{"version":"1","later":[]}"#, None).unwrap().version, "1");
        let error = |status, body| read(status, body, None).unwrap_err();
        assert!(error(401, "{}").contains("requires the operator's token: set WATCHFIRE_ADMIN_"));
        assert!(read(401, "", Some("x")).unwrap_err().contains("not the one given: set"));
        for (status, body) in [(404, "Not Found"), (200, "<!doctype html>"), (404, "{}")] {
            assert!(error(status, body).contains("admin.listen"), "{status} {body}");
        }
        let refused = error(403, r#"{"reason":"no token","message":"Set admin.token."}"#);
        assert_eq!(refused, "http://127.0.0.1:4010 refuses the call: Set admin.token.");
        assert!(error(200, r#"{"processes":1}"#).contains("of the same version"));
    }
}
