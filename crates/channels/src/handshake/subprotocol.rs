//! Which subprotocol is echoed, and the auth token that hides among those asked for.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// The subprotocol that phoenix.js asks for when it has an auth token.
pub const PHOENIX: &str = "phoenix";

/// What phoenix.js writes before a token. Despite the name, the standard alphabet follows.
const TOKEN_PREFIX: &str = "base64url.bearer.phx.";

/// What came of a client's `Sec-WebSocket-Protocol`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subprotocols<'a> {
    /// What to echo; browsers fail a connection that offered some and was granted none.
    pub protocol: Option<&'a str>,
    /// The client's auth token, decoded.
    pub auth_token: Option<String>,
}

/// Why a client's subprotocols are refused, with 403.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubprotocolRefusal {
    /// It asked for some, and none of them is spoken here.
    #[error("none of the subprotocols asked for is spoken here")]
    NoneSpoken,
    /// Its auth token is not the base64 of a text.
    #[error("the auth token is not the base64 of a text")]
    BadAuthToken,
}

/// Choose among the subprotocols that a client asks for, in its order of preference.
///
/// `headers` are the values of all its `Sec-WebSocket-Protocol` headers. [`PHOENIX`] is always
/// spoken, `configured` besides.
///
/// ```
/// use watchfire_channels::handshake::negotiate;
///
/// let asked = ["phoenix, base64url.bearer.phx.c2VjcmV0"];
/// let granted = negotiate(asked, &[])?;
/// assert_eq!(granted.protocol, Some("phoenix"));
/// assert_eq!(granted.auth_token.as_deref(), Some("secret"));
/// # Ok::<(), watchfire_channels::handshake::SubprotocolRefusal>(())
/// ```
pub fn negotiate<'a>(
    headers: impl IntoIterator<Item = &'a str>,
    configured: &[String],
) -> Result<Subprotocols<'a>, SubprotocolRefusal> {
    let mut granted = Subprotocols::default();
    let mut has_asked = false;
    let asked = headers.into_iter().flat_map(|header| header.split(',')).map(str::trim);
    for name in asked.filter(|name| !name.is_empty()) {
        has_asked = true;
        if let Some(token) = name.strip_prefix(TOKEN_PREFIX) {
            granted.auth_token = Some(decode_token(token)?);
        } else if granted.protocol.is_none()
            && (name == PHOENIX || configured.iter().any(|own| own == name))
        {
            granted.protocol = Some(name);
        }
    }
    match granted.protocol {
        None if has_asked => Err(SubprotocolRefusal::NoneSpoken),
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
    fn who_asks_for_none_is_granted_none() {
        assert_eq!(negotiate([], &[]), Ok(Subprotocols::default()));
        assert_eq!(negotiate(["", " , "], &[]), Ok(Subprotocols::default()));
    }

    #[test]
    fn phoenix_is_granted_whether_or_not_a_token_comes_with_it() {
        assert_eq!(negotiate(["phoenix"], &[]).unwrap().protocol, Some("phoenix"));
    }

    #[test]
    fn the_first_one_asked_for_that_is_spoken_is_granted() {
        let configured = ["chat".to_owned()];
        let granted = |header| negotiate([header], &configured).unwrap().protocol;
        assert_eq!(granted("soap, chat, phoenix"), Some("chat"));
        assert_eq!(granted("phoenix,chat"), Some("phoenix"));
    }

    #[test]
    fn who_asks_for_none_that_is_spoken_is_refused() {
        let refused = Err(SubprotocolRefusal::NoneSpoken);
        assert_eq!(negotiate(["soap"], &[]), refused);
        assert_eq!(negotiate(["Phoenix"], &[]), refused, "names are compared by case");
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
    fn a_token_that_is_no_base64_of_a_text_is_refused() {
        for token in ["!", "a", "/w"] {
            let header = format!("phoenix, {TOKEN_PREFIX}{token}");
            assert_eq!(negotiate([&*header], &[]), Err(SubprotocolRefusal::BadAuthToken));
        }
    }
}
