//! Subprotocol negotiation, and the auth token that a client sends as a subprotocol.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// The subprotocol that phoenix.js requests when it has an auth token.
pub const PHOENIX: &str = "phoenix";

/// The prefix of a token by phoenix.js. Despite the name, the standard alphabet follows.
const TOKEN_PREFIX: &str = "base64url.bearer.phx.";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subprotocols<'a> {
    /// The subprotocol to echo. Browsers fail a connection that requested some and got none.
    pub protocol: Option<&'a str>,
    /// The client's auth token, decoded.
    pub auth_token: Option<String>,
}

/// The reason why a client's subprotocols are refused, with 403.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubprotocolRefusal {
    #[error("none of the requested subprotocols is supported")]
    NoneSupported,
    #[error("the auth token is not base64 of UTF-8")]
    BadAuthToken,
}

/// Chooses the first supported subprotocol in the client's order of preference.
///
/// `headers` are the values of all its `Sec-WebSocket-Protocol` headers. [`PHOENIX`] is always
/// supported, and those in `configured`.
///
/// ```
/// use watchfire_channels::handshake::negotiate;
///
/// let requested = ["phoenix, base64url.bearer.phx.c2VjcmV0"];
/// let granted = negotiate(requested, &[])?;
/// assert_eq!(granted.protocol, Some("phoenix"));
/// assert_eq!(granted.auth_token.as_deref(), Some("secret"));
/// # Ok::<(), watchfire_channels::handshake::SubprotocolRefusal>(())
/// ```
pub fn negotiate<'a>(
    headers: impl IntoIterator<Item = &'a str>,
    configured: &[String],
) -> Result<Subprotocols<'a>, SubprotocolRefusal> {
    let mut granted = Subprotocols::default();
    let mut has_requested = false;
    let requested = headers.into_iter().flat_map(|header| header.split(',')).map(str::trim);
    for name in requested.filter(|name| !name.is_empty()) {
        has_requested = true;
        if let Some(token) = name.strip_prefix(TOKEN_PREFIX) {
            granted.auth_token = Some(decode_token(token)?);
        } else if granted.protocol.is_none()
            && (name == PHOENIX || configured.iter().any(|own| own == name))
        {
            granted.protocol = Some(name);
        }
    }
    match granted.protocol {
        None if has_requested => Err(SubprotocolRefusal::NoneSupported),
        _ => Ok(granted),
    }
}

fn decode_token(token: &str) -> Result<String, SubprotocolRefusal> {
    const LENIENT: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
    const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);
    let engine = if token.contains(['-', '_']) { URL_SAFE } else { STANDARD };
    let bytes = engine.decode(token).map_err(|_| SubprotocolRefusal::BadAuthToken)?;
    String::from_utf8(bytes).map_err(|_| SubprotocolRefusal::BadAuthToken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_requests_none_gets_none() {
        assert_eq!(negotiate([], &[]), Ok(Subprotocols::default()));
        assert_eq!(negotiate(["", " , "], &[]), Ok(Subprotocols::default()));
    }

    #[test]
    fn phoenix_is_granted_with_or_without_a_token() {
        assert_eq!(negotiate(["phoenix"], &[]).unwrap().protocol, Some("phoenix"));
    }

    #[test]
    fn the_first_supported_subprotocol_is_granted() {
        let configured = ["chat".to_owned()];
        let granted = |header| negotiate([header], &configured).unwrap().protocol;
        assert_eq!(granted("soap, chat, phoenix"), Some("chat"));
        assert_eq!(granted("phoenix,chat"), Some("phoenix"));
    }

    #[test]
    fn a_client_that_requests_only_unsupported_ones_is_refused() {
        let refused = Err(SubprotocolRefusal::NoneSupported);
        assert_eq!(negotiate(["soap"], &[]), refused);
        assert_eq!(negotiate(["Phoenix"], &[]), refused, "names are case-sensitive");
        assert_eq!(negotiate(["base64url.bearer.phx.c2VjcmV0"], &[]), refused);
    }

    #[test]
    fn several_headers_are_read_as_one() {
        let granted = negotiate(["phoenix", "base64url.bearer.phx.c2VjcmV0"], &[]).unwrap();
        assert_eq!(granted.protocol, Some("phoenix"));
        assert_eq!(granted.auth_token.as_deref(), Some("secret"));
    }

    #[test]
    fn a_token_is_base64_of_either_alphabet_with_or_without_padding() {
        for token in ["fn5+Pz8/ZQ", "fn5+Pz8/ZQ==", "fn5-Pz8_ZQ"] {
            let header = format!("phoenix, {TOKEN_PREFIX}{token}");
            let granted = negotiate([&*header], &[]).unwrap();
            assert_eq!(granted.auth_token.as_deref(), Some("~~~???e"), "{token}");
        }
    }

    #[test]
    fn a_token_that_is_not_base64_of_utf_8_is_refused() {
        for token in ["!", "a", "/w"] {
            let header = format!("phoenix, {TOKEN_PREFIX}{token}");
            assert_eq!(negotiate([&*header], &[]), Err(SubprotocolRefusal::BadAuthToken));
        }
    }
}
